/** Shorter values are too common to be told from other text. */
const shortestSecret = 4;
/** Shorter lines of a value of several lines are braces and the like. */
const shortestLine = 8;

/**
 * The ways in which a secret may stand in a text: as it is, trimmed, line by line, quoted for a shell, and each of these as
 * JSON and URLs write it. Empty for a value under four characters; no form is shorter than that.
 */
export function writtenForms(value: string): readonly string[] {
  if (value.length < shortestSecret) return [];
  const lines = value.split(/\r\n|\n|\r/).map((line) => line.trim());
  const plain = [value, value.trim(), ...lines.filter((line) => line.length >= shortestLine)];
  const parts = [
    ...new Set(plain.flatMap((part) => [part, insideQuotes(part), insideQuotes(insideQuotes(part))])),
  ];
  const forms = parts.flatMap((part) => [part, ...jsonForms(part), ...urlForms(part)]);
  return [...new Set(forms)].filter((form) => form.length >= shortestSecret);
}

/** Between the quotes of one word for a POSIX shell. */
function insideQuotes(text: string): string {
  return text.replaceAll("'", String.raw`'\''`);
}

/** Inside a JSON string, and inside a JSON string that is itself written inside one. */
export function jsonForms(text: string): string[] {
  const once = jsonStrings(text);
  return [...once, ...once.flatMap(jsonStrings)];
}

/** The inside of a JSON string, as JavaScript, Python and PHP write it by default. */
function jsonStrings(text: string): string[] {
  const plain = JSON.stringify(text).slice(1, -1);
  const forms = [plain, asciiOnly(plain)];
  return [...forms, ...forms.map((form) => form.replaceAll("/", String.raw`\/`))];
}

function asciiOnly(text: string): string {
  return text.replaceAll(/[^ -~]/g, escapeUnit);
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** In a URL as encodeURIComponent, encodeURI, RFC 3986 and HTML forms write it, with capital or small hexadecimals. */
export function urlForms(text: string): string[] {
  const whole = text.toWellFormed();
  const component = encodeURIComponent(whole);
  const form = component.replaceAll(/[!'()~]/g, percent).replaceAll("%20", "+");
  const forms = [component, encodeURI(whole), component.replaceAll(/[!'()*]/g, percent), form];
  return [
    ...forms,
    ...forms.map((written) => written.replaceAll(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase())),
  ];
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
