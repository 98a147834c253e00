import type { Json, JsonObject } from "./model.ts";

/** One typed action of a task. Strings may have templates in tasks from files of their own, nowhere else. */
export type Step = ActionStep | ControlStep;

/** Acts itself. */
export type ActionStep = CommandStep | HttpStep | FileStep | LlmStep | ScriptStep | McpStep | ExtensionStep;

/** Has steps of its own. */
export type ControlStep = ForeachStep | AnyOfStep | AllOfStep | NotStep | GroupStep;

export interface StepBase {
  /** Unique in its task: the author's, else made from the place, such as `verify[2]`. */
  readonly id: string;
  /** What the author calls it. */
  readonly name?: string;
  /** Longest that one attempt may take. */
  readonly timeoutMs: number;
  /** Its failure or error is recorded and changes nothing. */
  readonly continueOnError?: boolean;
  /** Templates by output name; they may use what the step gives, see `StepAttempt.values`. */
  readonly outputs?: Readonly<Record<string, string>>;
  /** Try again until it passes or the time is up. */
  readonly retry?: Polling;
  /** Attempts after a failed one, at once; only tool tests have them. */
  readonly retries?: number;
  /** Once it passes it has to go on passing for so long. */
  readonly stableForMs?: number;
  /** The step is skipped unless this holds: a text that is not empty, `false` or `0`, or `A == B`, or `A != B`. */
  readonly if?: string;
  /**
   * Only in the older forms. `hard`: a failure ends the phase, also in verify. `soft`: a failure, but not an error, does
   * not end setup. Absent: a failure ends setup and nothing else.
   */
  readonly failure?: "hard" | "soft";
}

export interface Polling {
  /** No attempt begins later than this after the first one began. */
  readonly forMs: number;
  readonly everyMs: number;
}

/** What a text must be; every part that is given must hold. Line ends after the last line do not count for `equals`. */
export interface TextExpectation {
  readonly equals?: string;
  readonly contains?: readonly string[];
  /** Regular expressions (RE2), found anywhere in the text. */
  readonly matches?: readonly string[];
  /** The text must be JSON, and these must hold of it. */
  readonly json?: readonly JsonExpectation[];
}

/**
 * What a place in a JSON document must be; every part that is given must hold. None: the place must exist. Of a path that
 * can lead to several places, `equals` and `contains` look at the list of the values, `matches` and `type` at each value.
 */
export interface JsonExpectation {
  /** RFC 9535, as the author wrote it or completed to begin with `$`. */
  readonly path: string;
  readonly exists?: boolean;
  /** Compared as JSON: key order does not count, numbers by value. */
  readonly equals?: Json;
  /**
   * A text that contains this text, a list that has this member or, given a list, all of its members, an object that has
   * these members.
   */
  readonly contains?: Json;
  /** A regular expression (RE2) found anywhere in a text. */
  readonly matches?: string;
  readonly type?: "string" | "number" | "boolean" | "array" | "object" | "null";
  /** How many places the path leads to. */
  readonly count?: number;
  /** RFC 9535 paths, inside the value, that `equals` and `contains` leave out on both sides. */
  readonly ignorePaths?: readonly string[];
  /** Only in the older forms: `equals` also holds when both sides are printed alike, such as 5 and "5". */
  readonly loose?: true;
}

/** A line for the shell. Values: `stdout`, `stderr`, `exitCode`. */
export interface CommandStep extends StepBase {
  readonly type: "command";
  readonly run: string;
  /** Absent: the variable SHELL, else `/bin/sh`. */
  readonly shell?: string;
  /** Relative to the task's folder, which it is when absent. */
  readonly workdir?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly expect: CommandExpectation;
}

export interface CommandExpectation {
  readonly exitCode: number;
  readonly stdout?: TextExpectation;
  readonly stderr?: TextExpectation;
}

/** One HTTP request; redirects are followed. Values: `response` with `body`, `status`, `headers`. */
export interface HttpStep extends StepBase {
  readonly type: "http";
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: { readonly text: string } | { readonly json: Json };
  readonly expect: HttpExpectation;
}

export interface HttpExpectation {
  /** Numbers or classes such as `2xx`, of which one must fit; empty: any. */
  readonly status: readonly (number | string)[];
  readonly headers?: Readonly<Record<string, TextExpectation>>;
  readonly body?: TextExpectation;
}

/** Makes, removes or looks at a file. Values: `content`, where there is a file afterwards. */
export interface FileStep extends StepBase {
  readonly type: "file";
  /** Relative to the task's folder, or inside the workspace. */
  readonly path: string;
  readonly action:
    | { readonly kind: "create"; readonly content: string; readonly mode: number }
    | { readonly kind: "remove" }
    | ({ readonly kind: "check" } & FileExpectation);
}

export interface FileExpectation {
  readonly exists: boolean;
  /** Permission bits. */
  readonly mode?: number;
  readonly content?: TextExpectation;
}

/** Asks the judge about a text. Values: `score`, `reason`. */
export interface LlmStep extends StepBase {
  readonly type: "llm";
  /** At least one of the three. */
  readonly contains?: string;
  readonly exact?: string;
  readonly rubric?: string;
  /** What is judged; absent: the agent's output. */
  readonly input?: string;
}

/** Runs a program of the task's own. Values: `stdout`, `stderr`, `exitCode`, and `outputs` with the JSON protocol. */
export interface ScriptStep extends StepBase {
  readonly type: "script";
  /** A file is relative to the task's folder; a text is run by what its first line names, else by the shell. */
  readonly source: { readonly file: string } | { readonly inline: string };
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly protocol: "exit-code" | "json";
  /** Where it runs: the task's folder, or that of the script (only in the older forms). */
  readonly workdir: "task" | "script";
}

/** A call of one tool, or a read of one resource or prompt, by mcpvals itself. Values: `result`, `text`. */
export interface McpStep extends StepBase {
  readonly type: "mcp";
  /** Absent: the one server that offers the tool, or the only server. */
  readonly server?: string;
  readonly request: McpRequest;
  readonly expect: McpExpectation;
}

export type McpRequest =
  | { readonly kind: "tool"; readonly tool: string; readonly args: JsonObject }
  | { readonly kind: "resource"; readonly uri: string }
  | { readonly kind: "prompt"; readonly prompt: string; readonly args: JsonObject };

export interface McpExpectation {
  /** Of a tool test; absent: any result is accepted. */
  readonly result?: Json;
  /** Of a tool test: the call must fail with an error that contains this text, ignoring case. */
  readonly error?: string;
  readonly maxLatencyMs?: number;
  /** Whether the call must fail. Absent: it must not, unless `error` is given. */
  readonly isError?: boolean;
  /** Of the texts of the result's content, joined by line ends. */
  readonly text?: TextExpectation;
  /** Of the structured content, else of the text as JSON; of a resource or prompt, of the whole result. */
  readonly json?: readonly JsonExpectation[];
  /** JSON Schema of the same. */
  readonly schema?: JsonObject;
  /** Only in the older forms: of the result's list of content, written as JSON. */
  readonly content?: TextExpectation;
}

/** An operation of an outside program. Values: those that it gives. */
export interface ExtensionStep extends StepBase {
  readonly type: "extension";
  /** Its name among the task's `extensions`. */
  readonly extension: string;
  readonly operation: string;
  readonly args: JsonObject;
}

/** Runs its steps for every item; all must pass. */
export interface ForeachStep extends StepBase {
  readonly type: "foreach";
  readonly variable: string;
  /** The items, or a template that gives a JSON list. */
  readonly in: string | readonly Json[];
  /** Only while it runs: no item is from outside. */
  readonly trusted?: boolean;
  readonly steps: readonly Step[];
}

/** Passes with the first step that passes; the others are then not run. */
export interface AnyOfStep extends StepBase {
  readonly type: "anyOf";
  readonly steps: readonly Step[];
}

/** Passes when all of its steps pass; all are run. */
export interface AllOfStep extends StepBase {
  readonly type: "allOf";
  readonly steps: readonly Step[];
}

/** Passes when not all of its steps pass; an error in one of them is an error. */
export interface NotStep extends StepBase {
  readonly type: "not";
  readonly steps: readonly Step[];
}

/** Steps with their own setup and cleanup; cleanup is always run, in reverse. */
export interface GroupStep extends StepBase {
  readonly type: "group";
  readonly setup: readonly Step[];
  readonly steps: readonly Step[];
  readonly cleanup: readonly Step[];
}

/** Gives every step, those inside others included, in the order of the file. */
export function* walkSteps(steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step;
    if (step.type === "group") yield* walkSteps([...step.setup, ...step.steps, ...step.cleanup]);
    else if ("steps" in step) yield* walkSteps(step.steps);
  }
}
