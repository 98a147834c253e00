/** What is known of programs that run a part of what they are given. */

/** Those whose arguments are a program, or name a variable in which one can hide. */
export const readers: ReadonlySet<string> = new Set(
  (
    ". alias at batch dc declare duckdb ed emacs eval ex expect getopts let mapfile mariadb mongosh mysql parallel psql " +
    "read readarray source sqlite3 ssh tclsh trap typeset unset vi vim watch"
  ).split(" "),
);

/** Those that an option, or else their first argument, tells what to run. */
export const interpreters =
  /^(?:(?:ba|da|a|z|k|mk|fi|ya|c|tc|pw)?sh|busybox|powershell|su|runuser|script|flock|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|tsx|perl[\d.]*|ruby|php|lua[\d.]*|luajit|rscript|julia|osascript|g?sed|[gmn]?awk|jq|yq)$/;

/** The name of a program, without its folders. */
export function nameOf(program: string): string {
  return (program.split(/[/\\]/).at(-1) ?? "").toLowerCase().replace(/\.exe$/, "");
}

const programOption = /^-[a-z]*[ce]$|^-p$|^--?(?:eval|print|command|encodedcommand|exec|expression)$|^eval$/i;
const optionsWithOne = /^[-+]o$|^-[OWXIMFvL]$|^--(?:import|require|rcfile|init-file|indent|tab)$/;
const optionsWithTwo = /^--(?:arg|argjson|slurpfile|rawfile)$/;

/**
 * Whether an interpreter knows what to run after these arguments, or the next one is only data for it; that may have begun
 * with `word`.
 */
export function hasProgram(name: string, args: readonly string[], word: string | undefined): boolean {
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (programOption.test(arg) || (name === "php" && arg === "-r")) {
      const next = args[at + 1];
      if (next === undefined) return false;
      if (!next.startsWith("-")) return true;
    } else if (optionsWithTwo.test(arg)) {
      if (args.length === at + 2) return true;
      at += 2;
    } else if (optionsWithOne.test(arg) || (arg === "-r" && /^(?:node|tsx|bun|ruby)/.test(name))) {
      if (args.length === at + 1) return arg === "-v" && /^\w+=/.test(word ?? "");
      at += 1;
    } else if (!/^[-+]/.test(arg)) return true;
  }
  return false;
}

/** Whether a command runs what it reads on stdin. */
export function readsItsInput([first = "", ...args]: readonly string[]): boolean {
  const name = nameOf(first);
  if (name === "xargs") return args.some((arg) => isShellLike(nameOf(arg)));
  // What these run is found behind them.
  if (/^(?:sudo|doas|env|exec|command|nohup|nice|timeout|docker|podman|kubectl|oc|npx)$/.test(name))
    return args.some(
      (_, index) => isShellLike(nameOf(args[index] ?? "")) && readsItsInput(args.slice(index)),
    );
  if (readers.has(name)) return !/^(?:read|mapfile|readarray|getopts)$/.test(name);
  if (!isShellLike(name)) return false;
  return args.includes("-s") || !args.some((arg) => !arg.startsWith("-") || programOption.test(arg));
}

function isShellLike(name: string): boolean {
  return interpreters.test(name) && !/^(?:g?sed|[gmn]?awk|jq|yq|flock|script)$/.test(name);
}

const codeVariables =
  /^(?:PATH|HOME|SHELL|LESSOPEN|ENV|BASH_ENV|ZDOTDIR|IFS|PS4|PROMPT_COMMAND|CDPATH|(?:LD|DYLD)_\w+|NODE_(?:OPTIONS|PATH)|PYTHON(?:PATH|HOME|STARTUP|INSPECT)|PERL(?:5OPT|5LIB|5DB|LIB)|RUBY(?:OPT|LIB)|(?:_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS|GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|\w*ASKPASS)$|^BASH_FUNC_/i;

/** Whether the value of a variable decides what programs run. */
export function isCodeVariable(name: string): boolean {
  return codeVariables.test(name);
}
