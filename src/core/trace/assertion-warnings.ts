import { compilePattern } from "../templates/pattern.ts";
import type { Trajectory } from "./trajectory.ts";

type Seen = Pick<Trajectory, "task" | "events" | "tools">;

/** Entries of `toolsNotUsed` that fit no tool of their server: that none was called says nothing. */
export function assertionWarnings({ task, events, tools }: Seen): string[] {
  const hidden = events.flatMap((event) =>
    event.type === "tools.hidden" ? event.tools.map((name) => ({ server: event.server, name })) : [],
  );
  const forbidden = (task.portable?.assertions ?? []).flatMap(({ toolsNotUsed = [] }) => toolsNotUsed);
  const told = forbidden.flatMap(({ server, name, pattern }) => {
    const offered = [...tools, ...hidden].filter((tool) => tool.server === server);
    if (offered.length === 0 || (name ?? pattern) === undefined) return [];
    const regex = pattern === undefined ? undefined : compilePattern(pattern);
    if (offered.some((tool) => tool.name === name || regex?.test(tool.name) === true)) return [];
    const what = JSON.stringify(name ?? pattern);
    return [
      `toolsNotUsed: ${what} fits no tool of server "${server ?? ""}"; that it was not called says nothing`,
    ];
  });
  return [...new Set(told)];
}
