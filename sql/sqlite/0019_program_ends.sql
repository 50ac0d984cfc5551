-- Schema 19: how the program of a failed attempt ended.
--
-- errors.program_end  {"exit_code", "signal", "oom", "peak_memory"}, as far as its worker knew; NULL = nothing is known, or there was none.

ALTER TABLE errors ADD COLUMN program_end TEXT;
