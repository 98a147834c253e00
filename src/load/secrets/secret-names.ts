import { isTraceWord } from "../../core/trace/redact.ts";

const always =
  /token(?!iz)|secret|passw(?:or)?d|passphrase|passwd|credential|cookie|private|api[-_.]?key|connection[-_.]?string/i;
/** Words that count only as words of the name, so that PATH, PWD, KEYBOARD and AUTHOR are left alone. */
const asWord =
  /(?:^|[-_.])(?:o?auth(?!or(?:s|ed)?(?:$|[-_.]))|(?:pat|pass|dsn)(?=$|[-_.]))|[-_.]pwd(?=$|[-_.])|keys?(?=$|[-_.])/i;
const quantity = /(?:^|[-_.])(?:max|min|num|count|limit|size|length|ttl|expir|timeout|budget|retries|port)/i;
/** Values that stand for "no secret": switches, kinds of authentication, placeholders that local models take. */
const wordValue =
  /^(?:true|false|null|none|undefined|yes|no|on|off|enabled|disabled|default|basic|bearer|dummy|unused|not-needed|ollama|lm-studio)$/i;

/** Whether a variable, header, flag or query parameter of this name may hold a secret. */
export function isSecretName(name: string): boolean {
  const spread = name.replaceAll(/([a-z\d])([A-Z])/g, "$1_$2");
  return always.test(spread) || always.test(name) || asWord.test(spread);
}

/**
 * Whether a value under a secret's name is worth hiding. Removing `true` or a token limit from every text would garble
 * it and hide nothing; removing a word that traces, MCP or JSON Schema are written in would change what they say.
 */
export function isSecretValue(name: string, value: string): boolean {
  if (value.length < 4 || wordValue.test(value) || isTraceWord(value.trim())) return false;
  return !(quantity.test(name) && /^\d+$/.test(value));
}
