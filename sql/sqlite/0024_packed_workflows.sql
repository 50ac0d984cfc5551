-- Schema 24: workflows of at most 16 steps are packed.
--
-- workflows.data     has "states", those of the steps of the definition, and "queues": there are no rows of the kinds 2 (state) and
--                    6 (live) of these steps. Jobs of `each` have theirs, as before.
-- workflow_texts     kind 0, number 4 is what it was started with: lengths, and behind them the input, the result that is asked for
--                    and the definitions (kind 1). Instead of it there are no rows of kind 1, nor 0 with the numbers 1 and 3; one with
--                    0 only if the input is large.
-- Workflows that were begun before stay as they are. A program that knows only schema 23 would find no steps in them.
UPDATE workflows SET state = state WHERE 0;
