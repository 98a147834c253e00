/** Providers that go by another name here. */
const providers: Readonly<Record<string, string>> = { gemini: "google" };

/**
 * Turns `PROVIDER:MODEL` into `PROVIDER/MODEL`; what is in that form stays. A bare name gets `usual` as its provider;
 * without that it gives undefined.
 */
export function modelId(text: string, usual?: string): string | undefined {
  const trimmed = text.trim();
  const [, provider = "", model = ""] = /^([\w.-]+):(.+)$/s.exec(trimmed) ?? [];
  if (model !== "") return `${providers[provider] ?? provider}/${model.trim()}`;
  if (/^[\w.-]+\/\S+$/.test(trimmed)) return trimmed;
  return usual === undefined || trimmed === "" ? undefined : `${usual}/${trimmed}`;
}
