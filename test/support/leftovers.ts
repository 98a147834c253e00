import { expect, vi } from "vitest";

/**
 * Notes what keeps this process alive now, and gives a check that nothing more does later. What the system closes in
 * its own time is waited for; timers have to be gone at once.
 */
export function watchLeftovers(): () => Promise<void> {
  const before = resources();
  return async () => {
    expect(timersIn(resources())).toBeLessThanOrEqual(timersIn(before));
    await vi.waitFor(() => expect(added(before, resources())).toEqual([]), { timeout: 60_000, interval: 5 });
  };
}

/** `waitFor` waits by timers, of which vitest has its own. */
function resources(): readonly string[] {
  return process.getActiveResourcesInfo();
}

function timersIn(names: readonly string[]): number {
  return names.filter((name) => name === "Timeout").length;
}

function added(before: readonly string[], after: readonly string[]): string[] {
  const rest = [...before];
  return after.filter((name) => {
    if (name === "Timeout" || name === "Immediate") return false;
    const index = rest.indexOf(name);
    if (index !== -1) rest.splice(index, 1);
    return index === -1;
  });
}
