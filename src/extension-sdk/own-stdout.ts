/** The way to the host. */
export interface OwnStdout {
  /** Settles when the text has been handed to the system; rejects when nobody reads it any more. */
  readonly write: (text: string) => Promise<void>;
}

/**
 * Takes stdout for the protocol alone: from now on everything else that this process writes there, such as with
 * `console.log`, goes to stderr. `onGone` is called when nobody reads stdout any more.
 */
export function ownStdout(onGone: (error: Error) => void): OwnStdout {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  stdout.on("error", onGone);
  // Nobody is left to tell when stderr is gone too.
  stderr.on("error", () => undefined);
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        write(text, (error) => (error ? reject(error) : resolve()));
      }),
  };
}
