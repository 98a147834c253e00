import { untilAborted } from "../../process/deadline.ts";

const last = new Map<string, Promise<void>>();

/**
 * Waits until nobody else in this process has a folder, and takes it; what is returned gives it back. Rejects with the
 * signal's reason when it aborts first.
 */
export async function takeFolder(folder: string, signal: AbortSignal): Promise<() => void> {
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const before = last.get(folder) ?? Promise.resolve();
  const ours = before.then(() => done);
  last.set(folder, ours);
  void forget(folder, ours);
  try {
    await untilAborted(before, signal);
  } catch (error) {
    resolve();
    throw error;
  }
  return resolve;
}

async function forget(folder: string, turn: Promise<void>): Promise<void> {
  await turn;
  if (last.get(folder) === turn) last.delete(folder);
}
