import type { Secret } from "../../core/trace/redact.ts";
import { isSecretName, isSecretValue } from "./secret-names.ts";

const url = /[a-z][a-z0-9+.-]*:\/\/[^\s"'<>`]+/gi;
const password = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)@/i;
const secretParameter = /^(?:sig|signature|code|sas|jwt|session|sid|access|auth|pw)$/i;

/**
 * Passwords and token-like query values of every URL in a text, as written and decoded; `name` is what the text is
 * called. The URLs need not be of the web: database addresses carry passwords too.
 */
export function secretsInUrls(text: string, name: string): Secret[] {
  if (!text.includes("://")) return [];
  return [...text.matchAll(url)]
    .flatMap(([address]) => [...passwordOf(address), ...parameterValues(address)])
    .flatMap((value) => [...new Set([value, decode(value)])])
    .filter((value) => value.length >= 4)
    .map((value) => ({ name, value }));
}

function passwordOf(address: string): string[] {
  const user = password.exec(address)?.[1];
  const colon = user?.indexOf(":") ?? -1;
  if (user === undefined) return [];
  // A lone user name in front of the host is a token where services take one, as in https://TOKEN@host.
  return [colon === -1 ? (user.length >= 16 ? user : "") : user.slice(colon + 1)];
}

function parameterValues(address: string): string[] {
  const query = /[?#](.*)$/.exec(address)?.[1] ?? "";
  return query.split(/[&;?#]/).flatMap((pair) => {
    const [name = "", value = ""] = splitOnce(pair, "=");
    const secret = isSecretName(name) || secretParameter.test(name);
    return secret && isSecretValue(name, value) ? [value] : [];
  });
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    // Not percent-encoded: the text is the value.
    return value;
  }
}
