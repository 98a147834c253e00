import { errorResult, structuredResult, textResult } from "../../test/support/trial-events.ts";
import { type CheckedCall, type CheckedServer, schemaOf, testRules, tool } from "../../test/support/rules.ts";

const word = { type: "string", description: "Any word." };
/** A server with a tool that takes a word, and what becomes of a call of it. */
const called = (call: CheckedCall, definition = {}): CheckedServer => ({
  tools: [tool({ inputSchema: schemaOf({ word }), ...definition })],
  calls: [{ args: { word: "text" }, ...call }],
});
const result = (result: CheckedCall["result"]): CheckedServer => called({ result: result ?? null });
const ownRefusal = errorResult("Output validation error: sum: expected number, received string");
const invalid = { args: { word: 1 }, expects: "refusal", why: "word is of another type" } as const;
const unknown = { args: { word: "a", wrod: "b" }, expects: "refusal", why: "an unknown argument" } as const;
const refused = { error: { code: -32602, message: "word must be a string" } };
const accepted = (text: string): CheckedServer => called({ ...invalid, result: textResult(text) });
/** Answers that refuse an argument without isError. */
const inWords = {
  "a failure": accepted("Error: there is no such word"),
  "a refusal in a part of the text": accepted(
    '# Words\n\n⚠️ No result: Invalid word: "1". Accepted values: a, b.',
  ),
  "the argument, and what it must be": accepted("Please try again: `word` must be a string"),
  "the type that was expected": accepted("Expected string, received number"),
  "a missing argument": accepted("Missing required parameter: word"),
};
const sum = { outputSchema: schemaOf({ sum: { type: "number" } }) };

const withParameters = (count: number): CheckedServer => ({
  tools: [
    tool({
      inputSchema: schemaOf(Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, word]))),
    }),
  ],
});

/** The same in the part security, where the part calls leaves the tool out, or does not. */
const confined = (call: CheckedCall, isLeftOut = true): CheckedServer => ({
  ...called(call),
  kind: "security",
  notCalled: isLeftOut ? [{ tool: "search", reason: "not annotated" }] : [],
});
const attack = { parameter: "word", aim: "size", form: "a long text", isWhole: false } as const;

testRules({
  "call/parameters-not-tried": {
    bad: { "a tool with more parameters than are tried": withParameters(51) },
    good: {
      "a tool with as many as are tried": withParameters(50),
      "a tool that is not called": {
        ...withParameters(51),
        notCalled: [{ tool: "search", reason: "not annotated" }],
      },
    },
  },
  "call/crash": {
    bad: {
      "a call that ends the server": called({ exits: 1 }),
      "an ordinary call of the part security that ends the server": confined({ exits: 1 }),
      "one that only the part security makes, of a tool that the part calls called": {
        ...confined({ result: textResult("ok") }, false),
        calls: [
          { args: { word: "text" }, result: textResult("ok") },
          { args: { word: "." }, exits: 1 },
        ],
      },
    },
    good: {
      "a call of the part security that the part calls made too": confined({ exits: 1 }, false),
      "a hostile call that ends the server": confined({ attack, exits: 1 }),
      "an answer": result(textResult("ok")),
      "a refusal": called({ ...invalid, ...refused }),
      "an answer that mcpvals does not read": called({ breaks: true }),
    },
  },
  "call/hang": {
    bad: {
      "no answer, not even to a ping": called({ answersPing: false }),
      "none to an ordinary call of the part security": confined({ answersPing: false }),
    },
    good: {
      "no answer to a hostile call": confined({ attack, answersPing: false }),
      "no answer in time": called({ answersPing: true }),
      "an answer that mcpvals does not read": called({ breaks: true }),
    },
  },
  "call/slow": {
    bad: {
      "no answer in time": called({ answersPing: true }),
      "an answer when the call was given up": called({ answersPing: true, late: textResult("ok") }),
    },
    good: {
      "no answer, not even to a ping": called({ answersPing: false }),
      "an answer that mcpvals does not read": called({ answersPing: true, breaks: true }),
    },
  },
  "call/valid-refused": {
    bad: { "a protocol error": called(refused) },
    good: {
      "a failure in words": result(errorResult("no such word")),
      "a protocol error for invalid arguments": called({ ...invalid, ...refused }),
    },
  },
  "call/invalid-accepted": {
    bad: {
      "a success": called({ ...invalid, result: textResult("ok") }),
      "a success that names the argument": accepted(
        "The word 1 is unknown in the wordlist of missing words.",
      ),
      "a success in JSON": accepted('{"missing":[],"word":"1","expected":2}'),
    },
    good: {
      "a protocol error": called({ ...invalid, ...refused }),
      ...inWords,
      "a failure in words": called({ ...invalid, result: errorResult("word must be a string") }),
      "an unknown argument": called({ ...unknown, result: textResult("ok") }),
    },
  },
  "call/unknown-argument": {
    bad: { "a success": called({ ...unknown, result: textResult("ok") }) },
    good: {
      "a failure in words": called({ ...unknown, result: errorResult("unknown: wrod") }),
      "another invalid argument": called({ ...invalid, result: textResult("ok") }),
    },
  },
  "call/invalid-result": {
    bad: {
      "content that is a text": result({ content: "42" }),
      "a block without a type": result({ content: [{ text: "42" }] }),
      "no content": result({}),
      null: result(null),
    },
    good: {
      "an empty list": result({ content: [] }),
      "structured content only": result({ structuredContent: { a: 1 } }),
      "members that are unknown": result({ ...textResult("ok"), extra: 1 }),
      "a protocol error": called(refused),
    },
  },
  "call/output-schema": {
    bad: {
      "another member": called({ result: structuredResult({ total: 3 }) }, sum),
      "no structured content": called({ result: textResult("3") }, sum),
      "what the SDK of the server refuses": called({ result: ownRefusal }, sum),
    },
    good: {
      "a refusal of invalid arguments": called({ ...invalid, result: ownRefusal }, sum),
      "what the schema says": called({ result: structuredResult({ sum: 3 }) }, sum),
      "a failure": called({ result: errorResult("cannot add") }, sum),
      "a schema that is itself invalid": called(
        { result: structuredResult({ sum: 3 }) },
        { outputSchema: { type: "no-such-type" } },
      ),
    },
  },
  "call/text-differs": {
    bad: { "other numbers": result(structuredResult({ sum: 3 }, '{"sum":4}')) },
    good: {
      "the same with other spaces and order": result(structuredResult({ a: 1, b: 2 }, '{ "b": 2, "a": 1 }')),
      "a member that is null in one of them": result(structuredResult({ a: 1 }, '{"a":1,"b":null}')),
      words: result(structuredResult({ sum: 3 }, "The sum is 3.")),
      "text that only begins like JSON": result(structuredResult({ sum: 3 }, "{sum} is 3")),
    },
  },
  "call/error-without-flag": {
    bad: {
      "an error": result(textResult("Error: file not found")),
      "a Python traceback": result(textResult("Traceback (most recent call last):")),
      "an exception by its class": result(textResult("ValueError: bad word")),
      "a failure in JSON": result(textResult('{"status": "error", "message": "no such note"}')),
      "an error after a symbol": result(textResult("⚠️ **Error**: file not found")),
      ...inWords,
    },
    good: {
      "the flag": result(errorResult("Error: file not found")),
      "what a validator finds": result(textResult('{"valid": false, "error": "a brace is missing"}')),
      "words of a refusal after a valid call": result(textResult("word must be a string")),
      "no error in JSON": result(textResult('{"error": null, "errors": [], "success": true}')),
      "a report about errors": result(textResult("3 errors were found in the log")),
      "a word that begins like error": result(textResult("Errorless run")),
    },
  },
  "call/error-without-words": {
    bad: { "no content": result({ isError: true, content: [] }), "one character": result(errorResult("!")) },
    good: { words: result(errorResult("no such word")), "an empty success": result(textResult("")) },
  },
  "call/never-succeeded": {
    bad: { "a failure in words": result(errorResult("no such word")) },
    good: {
      "a success": result(textResult("ok")),
      "a result that the SDK of the server refuses": result(ownRefusal),
      "a refusal of invalid arguments": called({ ...invalid, result: errorResult("word must be a string") }),
      "no answer in time": called({ answersPing: true }),
    },
  },
  "call/large-result": {
    bad: { "100,004 characters": result(textResult("a".repeat(100_004))) },
    good: { "100,000 characters with the quotes": result(textResult("a".repeat(99_998))) },
  },
});
