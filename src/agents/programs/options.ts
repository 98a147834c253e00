/** What programs that are agents need besides their own description. */
export interface ProgramAgentOptions {
  /** Version of mcpvals, as agents are told. */
  readonly version: string;
}
