/** The flags of `show` as commander gives them. */
export interface ShowFlags {
  readonly output?: string;
  readonly trial?: string;
  readonly reporter?: readonly string[];
  readonly json?: boolean;
  readonly tools?: boolean;
}
