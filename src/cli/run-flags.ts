/** The flags of `run` as commander gives them. */
export interface RunFlags {
  readonly config?: string;
  readonly agent?: readonly string[];
  readonly task?: readonly string[];
  readonly trials?: number;
  readonly concurrency?: number;
  readonly reporter?: readonly string[];
  readonly output?: string;
  readonly llm?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeout?: number;
  readonly bail?: boolean;
}
