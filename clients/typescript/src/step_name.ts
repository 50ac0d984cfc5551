/** The name of a step of a job. */
export const STEP_NAME = /^[A-Za-z0-9_-]{1,64}$/;
