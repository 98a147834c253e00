/** What a look at a path gives, undefined where nothing is. Rejects with any other error. */
export async function orAbsent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Below something that is no folder, nothing is either. */
function isAbsence(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}
