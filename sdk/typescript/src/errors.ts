// What can go wrong, one class per cause that a caller handles differently.

/** A problem as the daemon describes it. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  [data: string]: unknown;
}

/** The daemon refused a request; `code` is stable, the message says what to do next. */
export class ShellkeepError extends Error {
  override readonly name: string = "ShellkeepError";
  readonly code: string;
  readonly status: number;
  /** What the daemon sent besides, such as the version that a conflict found. */
  readonly data: Readonly<Problem>;

  constructor(problem: Problem) {
    super(problem.detail);
    this.code = problem.code;
    this.status = problem.status;
    this.data = problem;
  }
}

/** No daemon answered: none runs, it could not be started, or the connection broke and stayed broken. */
export class DaemonUnavailable extends Error {
  override readonly name = "DaemonUnavailable";
}
