-- Schema 22 of the shared store: how the program of a failed attempt ended. $schema is its name.
--
-- errors.program_end  {"exit_code", "signal", "oom", "peak_memory"}, as far as its worker knew; NULL = nothing is known, or there was none.
-- A program that knows only schema 21 keeps errors without it.

ALTER TABLE $schema.errors ADD COLUMN program_end text;
