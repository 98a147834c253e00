const mostKept = 1000;

/**
 * Makes a function that gives back the same object for equal JSON values, as long as there are few different ones.
 * A large run would otherwise hold the same few grades a hundred thousand times.
 */
export function shareEqual<T>(): (value: T) => T {
  const kept = new Map<string, T>();
  return (value) => {
    const key = JSON.stringify(value);
    const known = kept.get(key);
    if (known !== undefined) return known;
    if (kept.size < mostKept) kept.set(key, value);
    return value;
  };
}
