import picomatch from "picomatch";

/**
 * Makes a test for names of tools: a name fits when it is one of the patterns, or matches one as a glob. A slash is a
 * character like any other, and so is a `!` at the beginning.
 */
export function nameMatcher(patterns: readonly string[]): (name: string) => boolean {
  const tests = patterns.map(matcher);
  return (name) => tests.some((test) => test(name));
}

function matcher(pattern: string): (name: string) => boolean {
  if (pattern === "") return (name) => name === "";
  // `bash` lets `*` reach across slashes, and `windows` is said so that it is the same on every system.
  const isMatch = picomatch(pattern, { bash: true, dot: true, nonegate: true, windows: false });
  return (name) => name === pattern || isMatch(name);
}
