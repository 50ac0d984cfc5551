-- Schema 16: who waits in a session is told by the jobs themselves: those of its key that live, all but the one with the turn.
-- The lines are in memory, read at open. Each job that waited cost two pages here that nothing else of its batch had touched.

DROP TABLE session_jobs;
