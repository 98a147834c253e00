import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../base/json.ts";
import { createRedactor, type Secret, writtenForms } from "./redact.ts";

function redact(value: unknown, ...values: readonly string[]): unknown {
  return createRedactor(values.map((secret, index) => ({ name: `S${index + 1}`, value: secret })))(value);
}

/** Every text and number in a JSON value, keys included. */
function scalars(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [String(value)];
  if (Array.isArray(value)) return value.flatMap(scalars);
  return Object.entries(value).flatMap(([key, item]) => [key, ...scalars(item)]);
}

describe("given secrets", () => {
  it("are replaced by their names in texts, keys and lists, at any depth", () => {
    expect(redact({ a: ["x hunter2 y", { hunter2: "hunter2hunter2" }], b: 1, c: null }, "hunter2")).toEqual({
      a: ["x [secret:S1] y", { "[secret:S1]": "[secret:S1][secret:S1]" }],
      b: 1,
      c: null,
    });
  });

  it.each([
    ["a JSON string", 'p"a\\s\ns', String.raw`{"k":"p\"a\\s\ns"}`],
    ["a JSON string in JSON", 'p"a\\s\ns', JSON.stringify(JSON.stringify({ k: 'p"a\\s\ns' }))],
    ["JSON of other languages", "pässwörd/€", String.raw`{"k": "p\u00e4ssw\u00f6rd\/\u20ac"}`],
    [
      "a JSON string with escapes in JSON",
      "pässwörd",
      JSON.stringify(String.raw`{"k": "p\u00e4ssw\u00f6rd"}`),
    ],
    ["a query string", "p@ss wörd'!", "https://x/?k=p%40ss%20w%C3%B6rd'!"],
    ["a form", "p@ss wörd'!", `k=${new URLSearchParams({ k: "p@ss wörd'!" }).toString().slice(2)}`],
    ["small hexadecimals", "p@ss wörd'!", "k=p%40ss%20w%c3%b6rd'!"],
    ["a path", "p@ss wörd", `https://x${new URL("https://x/p@ss wörd").pathname}`],
    ["a trimmed value", " hunter2\n", "k=hunter2;"],
    ["a shell", 'it\'s-a-"secret"', String.raw`printf %s 'it'\''s-a-"secret"'`],
    ["a shell, quoted twice", "it's-a-secret", twiceQuoted("it's-a-secret")],
    ["a shell in JSON", "it's-a-secret", JSON.stringify({ run: String.raw`'it'\''s-a-secret'` })],
    ["a lone surrogate", "pass\ud800word", "k=pass%EF%BF%BDword"],
  ])("are found as %s writes them", (_, secret, text) => {
    expect(redact(text, secret)).toContain("[secret:S1]");
    for (const form of writtenForms(secret)) expect(redact(text, secret)).not.toContain(form);
  });

  it("of one name, and keys of a well-known shape, are told apart", () => {
    const redactor = createRedactor([
      { name: "KEY", value: "hunter2" },
      { name: "KEY", value: "correct horse" },
    ]);
    const [one, two] = [`sk-${"a".repeat(30)}`, `sk-${"b".repeat(30)}`];
    expect(redactor(`hunter2, correct horse, hunter2`)).toBe("[secret:KEY], [secret:KEY 2], [secret:KEY]");
    expect(redactor(`${one} ${two}`)).toBe("[secret:key] [secret:key 2]");
    expect(redactor(two)).toBe("[secret:key 2]");
  });

  it("of several lines are found line by line", () => {
    const key = "{\n  first-line\n  second-line\r\n}\n";
    expect(redact("stderr: first-line!\n{ second-line }", key)).toBe("stderr: [secret:S1]!\n{ [secret:S1] }");
  });

  it("that contain one another go as a whole, the longest first", () => {
    expect(redact("hunter2-extra hunter2", "hunter2", "hunter2-extra")).toBe("[secret:S2] [secret:S1]");
    expect(redact("abcdefgh", "abcde", "cdefgh")).toBe("[secret:S1][secret:S2]");
  });

  it("under four characters stay, in every written form", () => {
    const value = { text: 'a"b a%22b a b a%20b', a: "abc" };
    expect(redact(value, 'a"b', "a b", "abc", "")).toBe(value);
  });

  it("that are whole numbers of eight or more digits are found as numbers", () => {
    expect(
      redact({ id: 123456789012, port: 8080, part: 12345.5 }, "123456789012", "8080", "12345.5"),
    ).toEqual({
      id: "[secret:S1]",
      port: 8080,
      part: 12345.5,
    });
  });

  it("as keys of one object do not swallow one another", () => {
    const value = { hunter2: 1, "secret three": 2, x: 3 };
    const same = createRedactor([
      { name: "KEY", value: "hunter2" },
      { name: "KEY", value: "secret three" },
    ]);
    expect(same(value)).toEqual({ "[secret:KEY]": 1, "[secret:KEY 2]": 2, x: 3 });
  });

  it("never come back through the mark that replaces them", () => {
    expect(redact("my secret", "secret")).toBe("my [***]");
    expect(redact("x secr y", "secr", "***]")).toBe("x ‹***› y");
    expect(redact("abcX-word", "X-word", "abc[s")).toBe("abc[***]");
    const named = createRedactor([
      { name: "hunter2", value: "swordfish" },
      { name: "OTHER", value: "hunter2" },
    ]);
    expect(named("swordfish hunter2")).toBe("[***] [secret:OTHER]");
  });
});

describe("known shapes", () => {
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789";
  it.each([
    `sk-proj-${letters}`,
    `sk-ant-api03-${letters}`,
    `sk_live_${letters}`,
    `ghp_${letters}`,
    `github_pat_${letters}`,
    `glpat-${letters}`,
    `xoxb-1234567890-${letters}`,
    "AKIAIOSFODNN7EXAMPLE",
    `AIza${letters}`,
    `npm_${letters}`,
    `hf_${letters}`,
    `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.${letters}`,
    `-----BEGIN RSA PRIVATE KEY-----\n${letters}\n-----END RSA PRIVATE KEY-----`,
    `-----BEGIN PRIVATE KEY-----\n${letters}`,
  ])("%s is a key whoever gave it", (key) => {
    expect(redact(`before ${key} after`)).toMatch(/^before \[secret:key\](?: after)?$/);
  });

  it("finds what follows the word Bearer", () => {
    expect(redact(`Authorization: Bearer ${letters}==; bearer ${letters}`)).toBe(
      "Authorization: Bearer [secret:key]; bearer [secret:key 2]",
    );
  });

  it.each([
    "the task-force-of-the-century-and-more",
    "Bearer authentication-is-not-supported-here",
    "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
    "eyJust a word",
    `disk-${letters}`,
    "AKIAIOSFODNN7EXAMPLETOOLONG",
  ])("leaves %j alone", (text) => {
    expect(redact(text)).toBe(text);
  });

  it.each(["sk-", "ghp_", "npm_", "Bearer ", "eyJ", "-----BEGIN PRIVATE KEY-----"])(
    "gets to an end with %j before megabytes without a break",
    (start) => {
      const text = redact(start + "x1".repeat(6_000_000), "hunter2") as string;
      expect(text.startsWith(`${start}x1x1x1`)).toBe(start === "eyJ");
    },
  );

  it.each([
    ["starts of private keys", "-----BEGIN PRIVATE KEY-----"],
    ["starts of keys", "sk-"],
    ["starts of tokens", "eyJaaaaaaaa."],
    ["starts of tokens without an end", "eyJaaaaaaaa-"],
    ["headers", "Bearer "],
    ["long tokens", "Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/"],
    ["dashes", "-----BEGIN A "],
    ["spaces", " "],
    ["letters", "A"],
  ])("takes time in proportion to a text of %s", (_, piece) => {
    const text = piece.repeat(Math.ceil(4_000_000 / piece.length));
    redact(text, "hunter2");
  });
});

it("what looks like the mark of a secret in a text from outside is written otherwise, however long it is", () => {
  const { fromOutside } = createRedactor([]);
  const name = "x".repeat(300);
  expect(fromOutside(`[secret:KEY] [secret:${name}] [secret: yes`)).toBe(
    `(secret:KEY) (secret:${name}) [secret: yes`,
  );
});

describe("any value", () => {
  it("keeps what lies in the way of prototypes, harmlessly", () => {
    const value: unknown = JSON.parse('{"__proto__":{"a":"hunter2"},"constructor":"hunter2","toString":1}');
    const clean = redact(value, "hunter2") as object;
    expect(JSON.stringify(clean)).toBe(
      '{"__proto__":{"a":"[secret:S1]"},"constructor":"[secret:S1]","toString":1}',
    );
    expect(Object.getPrototypeOf(clean)).toBe(Object.prototype);
    expect("a" in clean).toBe(false);
  });

  it("may be nested so deeply that nobody could write it as JSON", () => {
    let value: Json = "hunter2";
    for (let depth = 0; depth < 100_000; depth += 1) value = depth % 2 === 0 ? [value] : { k: value };
    const clean = JSON.stringify(redact(value, "hunter2"));
    expect(clean).toContain("[nested too deeply to record]");
    expect(clean).not.toContain("hunter2");
  });

  it("keeps 501 levels, and no more", () => {
    const nested = (levels: number, inner: string): string => "[".repeat(levels) + inner + "]".repeat(levels);
    const cleaned = (levels: number): string =>
      JSON.stringify(redact(JSON.parse(nested(levels, '"hunter2"')), "hunter2"));
    expect(cleaned(501)).toBe(nested(501, '"[secret:S1]"'));
    expect(cleaned(502)).toBe(nested(501, '"[nested too deeply to record]"'));
  });

  it("comes back itself when it holds no secret", () => {
    fc.assert(
      fc.property(fc.jsonValue({ depthSize: "medium" }), (value) => {
        expect(redact(value, "\u0007no such text\u0007")).toBe(value);
      }),
    );
  });

  it("has no secret left, whatever the secret and wherever it stands", () => {
    const secretText = fc
      .string({
        minLength: 4,
        maxLength: 12,
        unit: fc.oneof(fc.constantFrom(..."ab[]*:\"\\/% ~'é\n"), fc.string({ minLength: 1, maxLength: 1 })),
      })
      .filter((text) => !/[‹›*]/.test(text));
    const secrets = fc.array(secretText, { minLength: 1, maxLength: 4 });
    const cases = secrets.chain((values) => {
      const written = values.flatMap((value) => [
        value,
        JSON.stringify(value),
        JSON.stringify(JSON.stringify({ value })),
        encodeURIComponent(value.toWellFormed()),
      ]);
      const text = fc
        .array(fc.oneof(fc.constantFrom(...written), fc.string({ maxLength: 3 })), { maxLength: 5 })
        .map((parts) => parts.join(""));
      const { tree } = fc.letrec((tie) => ({
        tree: fc.oneof(
          { maxDepth: 3 },
          text,
          fc.array(tie("tree"), { maxLength: 3 }),
          fc.dictionary(text, tie("tree"), { maxKeys: 3 }),
        ),
      }));
      return fc.record({ values: fc.constant(values), tree });
    });
    fc.assert(
      fc.property(cases, ({ values, tree }) => {
        const left = scalars(redact(tree, ...values));
        for (const form of values.flatMap(writtenForms)) {
          expect(left.filter((text) => text.includes(form))).toEqual([]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("is the same after a second time", () => {
    const secrets: Secret[] = ["secret", "hunter2", "key]", "[sec"].map((value) => ({ name: "N", value }));
    const redactor = createRedactor(secrets);
    const text = fc
      .array(fc.constantFrom("secret", "hunter2", "key]", "[sec", "x", " "))
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, (before) => {
        const once = redactor(before);
        expect(redactor(once)).toBe(once);
      }),
    );
  });
});

describe("isClean", () => {
  it("never calls JSON clean whose value holds a secret", () => {
    const text = fc.string({ unit: "binary", maxLength: 6 });
    const secret = fc.string({ unit: "binary", minLength: 4 });
    fc.assert(
      fc.property(secret, text, text, (value, before, after) => {
        const { isClean } = createRedactor([{ name: "S", value }]);
        expect(isClean(JSON.stringify({ text: before + value + after }))).toBe(false);
        expect(isClean(JSON.stringify({ [before + value]: 1 }))).toBe(false);
        expect(isClean(JSON.stringify([JSON.stringify([value])]))).toBe(false);
      }),
    );
  });

  it.each(["\n", "\t", '"', "é", " "])("sees a known key after %j", (before) => {
    const redact = createRedactor([]);
    const holder = { text: `${before}sk-ant-${"a1".repeat(20)}` };
    expect(redact(holder)).not.toBe(holder);
    expect(redact.isClean(JSON.stringify(holder))).toBe(false);
  });

  it("calls ordinary JSON clean", () => {
    expect(createRedactor([{ name: "S", value: "hunter2-hunter2" }]).isClean('{"text":"hello"}')).toBe(true);
  });
});

/** A text as one word for a shell, and that word as one word again. */
function twiceQuoted(text: string): string {
  const quote = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`;
  return quote(quote(text));
}
