/**
 * Loads the AI SDK, which costs some sixty milliseconds, when a model is first used. Its warnings are silenced: they
 * would be printed between the lines of a report, and nothing reads them.
 */
export async function loadAiSdk(): Promise<typeof import("ai")> {
  globalThis.AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}
