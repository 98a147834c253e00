/** SQL without the blanks, comments and semicolons that it begins with; empty when there is no statement. */
export function withoutBlank(sql: string): string {
  const blank = /^(?:\s+|;|--[^\n]*|\/\*[^]*?(?:\*\/|$))+/.exec(sql);
  return blank === null ? sql : sql.slice(blank[0].length);
}
