/** The worst first. */
export const severities = ["error", "warning", "info"] as const;

/** What a finding says, wherever it is. */
interface Said {
  readonly code: string;
  readonly severity: (typeof severities)[number];
  readonly message: string;
  readonly fix: string;
}

/** Findings that say the same of several places are one finding for readers: groups in the order given, at least one in each. */
export function alikeFindings<T extends Said>(
  findings: readonly T[],
): readonly (readonly [T, ...(readonly T[])])[] {
  const groups = Map.groupBy(findings, ({ code, message, fix }) => JSON.stringify([code, message, fix]));
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [[first, ...others] as const],
  );
}

/** How many findings there are of each severity, alike ones once, as words: `2 errors, 1 warning`; "no findings" when there are none. */
export function countFindings(findings: readonly Said[]): string {
  const groups = alikeFindings(findings);
  const counts = severities.flatMap((severity) => {
    const count = groups.filter(([first]) => first.severity === severity).length;
    if (count === 0) return [];
    return severity === "info" ? `${count} info` : `${count} ${severity}${count === 1 ? "" : "s"}`;
  });
  return counts.length === 0 ? "no findings" : counts.join(", ");
}
