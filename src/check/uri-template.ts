/** An expression of a template, such as `{?from,to}`: its operator, and its variables with `*` or a length after some. */
const expressions = /\{([+#./;?&]?)([^{}]*)\}/g;

interface Operator {
  /** What stands before the first value, and between values. */
  readonly first: string;
  readonly between: string;
  /** Whether the name stands before each value. */
  readonly isNamed?: true;
  /** Whether characters such as `/` stay as they are. */
  readonly keepsReserved?: true;
}

const operators: Readonly<Record<string, Operator>> = {
  "": { first: "", between: "," },
  "+": { first: "", between: ",", keepsReserved: true },
  "#": { first: "#", between: ",", keepsReserved: true },
  ".": { first: ".", between: "." },
  "/": { first: "/", between: "/" },
  ";": { first: ";", between: ";", isNamed: true },
  "?": { first: "?", between: "&", isNamed: true },
  "&": { first: "&", between: "&", isNamed: true },
};

interface Variable {
  readonly name: string;
  /** The most characters of its value that are taken. */
  readonly most: number;
}

function variablesIn(list: string): readonly Variable[] {
  return list.split(",").flatMap((each) => {
    const [, name = "", most] = /^(.*?)(?:\*|:(\d+))?$/.exec(each.trim()) ?? [];
    return name === "" ? [] : { name, most: most === undefined ? Infinity : Number(most) };
  });
}

/** The variables of a template of URIs (RFC 6570); those of a query may be left out. */
export function templateVariables(
  template: string,
): readonly { readonly name: string; readonly isRequired: boolean }[] {
  const all = Array.from(template.matchAll(expressions), ([, operator = "", list = ""]) =>
    variablesIn(list).map(({ name }) => ({ name, isRequired: operator !== "?" && operator !== "&" })),
  ).flat();
  return all.filter(({ name }, index) => all.findIndex((each) => each.name === name) === index);
}

/** A template of URIs (RFC 6570) with texts in the place of its variables. `isRaw`: they stand there as they are, without percent-encoding. */
export function expandTemplate(
  template: string,
  values: Readonly<Record<string, string>>,
  { isRaw = false }: { readonly isRaw?: boolean } = {},
): string {
  return template.replaceAll(expressions, (_, operator: string, list: string) => {
    const { first, between, isNamed, keepsReserved } = operators[operator] ?? { first: "", between: "," };
    const parts = variablesIn(list).flatMap(({ name, most }) => {
      const value = values[name];
      if (value === undefined) return [];
      const text = isRaw ? value : percentEncoded(value.slice(0, most), keepsReserved === true);
      return isNamed === true ? `${name}=${text}` : text;
    });
    return parts.length === 0 ? "" : `${first}${parts.join(between)}`;
  });
}

/**
 * The values of the variables with which a template (RFC 6570) gives a URI, with all of them or with those that are required; undefined:
 * there are none. A value ends where what comes next in the template begins.
 */
export function valuesIn(template: string, uri: string): Readonly<Record<string, string>> | undefined {
  const all = templateVariables(template);
  for (const variables of [all, all.filter(({ isRequired }) => isRequired)]) {
    const marks = Object.fromEntries(variables.map(({ name }) => [name, `\0${name}\0`]));
    // Names stand at the odd places, and what is between them at the even ones.
    const [before = "", ...parts] = expandTemplate(template, marks, { isRaw: true }).split("\0");
    if (!uri.startsWith(before)) continue;
    const values: Record<string, string> = {};
    let start = before.length;
    for (let at = 0; at < parts.length; at += 2) {
      const [name = "", next = ""] = parts.slice(at);
      const isLast = at + 2 === parts.length;
      const end = isLast ? uri.length - next.length : uri.indexOf(next, start);
      if (end <= start || !uri.startsWith(next, end)) break;
      values[name] = decoded(uri.slice(start, end));
      start = end + next.length;
    }
    // A slash in a value is one of the URI only where the template keeps it.
    const isWhole = start === uri.length && Object.keys(values).length === variables.length;
    if (isWhole && slashesIn(expandTemplate(template, values)) === slashesIn(uri)) return values;
  }
  return undefined;
}

function slashesIn(text: string): number {
  return text.split("/").length - 1;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function percentEncoded(text: string, keepsReserved: boolean): string {
  const encoded = keepsReserved ? encodeURI(text.toWellFormed()) : encodeURIComponent(text.toWellFormed());
  // The functions of JavaScript are about an older standard.
  return keepsReserved
    ? encoded
        .replaceAll(/%25(?=[\da-f]{2})/gi, "%")
        .replaceAll("%5B", "[")
        .replaceAll("%5D", "]")
    : encoded.replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}
