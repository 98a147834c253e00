import { descendantsOf, type ProcessInfo, processLister } from "./list-processes.ts";

/** Shortest and longest pause between two looks, in milliseconds. */
const shortest = 20;
const longest = 500;
/** A look may cost one part in so many of the time. */
const share = 20;

type OnLook = (descendants: readonly ProcessInfo[]) => Promise<void>;

const watched = new Map<object, { readonly pid: number; readonly onLook: OnLook }>();
let running = false;

/**
 * Calls back again and again with what descends from a process, until it is disposed of: every 20 milliseconds, and less
 * often where looking is dear. All watched processes share one look. A callback that throws ends nothing; it must not.
 */
export function watchTree(pid: number, onLook: OnLook): Disposable {
  const key = {};
  watched.set(key, { pid, onLook });
  if (!running) {
    running = true;
    void lookAgain();
  }
  return { [Symbol.dispose]: () => void watched.delete(key) };
}

async function lookAgain(): Promise<void> {
  while (watched.size > 0) {
    const started = performance.now();
    await lookOnce();
    const cost = performance.now() - started;
    await rest(Math.min(longest, Math.max(shortest, cost * share)));
  }
  running = false;
}

async function lookOnce(): Promise<void> {
  const all = await list();
  for (const { pid, onLook } of watched.values()) await onLook(descendantsOf(pid, all));
}

async function list(): Promise<readonly ProcessInfo[]> {
  try {
    return await processLister().list();
  } catch {
    return []; // too busy to look this time
  }
}

/** Does not keep this process alive. */
function rest(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
