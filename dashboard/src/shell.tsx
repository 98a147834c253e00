import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import { useOutage } from "./connection.ts";
import { useDataSource } from "./queries.ts";
import { useShortcutList, useShortcuts } from "./shortcuts.tsx";
import { setTheme, type Theme, useIsDark, useTheme } from "./theme.ts";

/** What surrounds every page: navigation, theme, help on keys. */
export function Shell(): ReactElement {
  const { runs } = useDataSource();
  const [isHelpShown, setHelpShown] = useState(false);
  const isDark = useIsDark();
  const outage = useOutage();
  useShortcuts(
    useMemo(
      () => [
        { key: "?", does: "Show these keys", run: () => setHelpShown(true) },
        { key: "/", does: "Go to the filter; Escape leaves it", run: focusFilter },
        { key: "t", does: "Light or dark", run: () => setTheme(isDark ? "light" : "dark") },
      ],
      [isDark],
    ),
  );
  useFocusAtStart();
  return (
    <>
      <button type="button" className="control sr-only focus:not-sr-only focus:absolute" onClick={focusMain}>
        Skip to content
      </button>
      <header className="border-line bg-surface border-b">
        <nav aria-label="Pages" className="mx-auto flex h-12 max-w-screen-2xl items-center gap-4 px-4">
          <Link to="/" className="text-ink font-semibold no-underline!">
            mcpvals
          </Link>
          {runs !== undefined && (
            <>
              <Link to="/" activeOptions={{ exact: true, includeSearch: false }} className={navigationStyle}>
                Runs
              </Link>
              <Link to="/compare" activeOptions={{ includeSearch: false }} className={navigationStyle}>
                Compare
              </Link>
            </>
          )}
          <div className="ml-auto flex items-center gap-2">
            <ThemeSelect />
            <button
              type="button"
              className="control"
              aria-label="Keys"
              title="Keys (?)"
              onClick={() => setHelpShown(true)}
            >
              ?
            </button>
          </div>
        </nav>
      </header>
      <main id="content" tabIndex={-1} className="mx-auto max-w-screen-2xl px-4 py-4 outline-none">
        {outage !== undefined && (
          <output className="bg-error-soft text-error mb-3 block rounded-md px-3 py-2">
            The dashboard {outage === "silent" ? "does not answer" : "was started again"}. The page shows what
            it said last; what has happened since is not known.{" "}
            {outage === "silent" ? (
              <>
                Start it again with: <code>mcpvals dashboard</code>
              </>
            ) : (
              "Open the address that it printed, with ?token= in it; then this page goes on."
            )}
          </output>
        )}
        <Outlet />
      </main>
      {isHelpShown && <KeyHelp onClose={() => setHelpShown(false)} />}
    </>
  );
}

const navigationStyle =
  "text-muted hover:text-ink aria-[current=page]:text-ink aria-[current=page]:font-medium";

function focusMain(): void {
  document.querySelector<HTMLElement>("main")?.focus();
}

function focusFilter(): void {
  document.querySelector<HTMLElement>("input[type=search]")?.focus();
}

/** After the first page, a new page takes the focus, so that a screen reader goes on there. */
function useFocusAtStart(): void {
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    // What led there may still be on the page, such as a link to another view of a run.
    if (document.activeElement?.closest("main") === null) focusMain();
  }, [path]);
}

const themeNames: Readonly<Record<Theme, string>> = { system: "System", light: "Light", dark: "Dark" };

function ThemeSelect(): ReactElement {
  const theme = useTheme();
  return (
    <select
      aria-label="Theme"
      className="control"
      value={theme}
      onChange={({ target }) => setTheme(target.value as Theme)}
    >
      {Object.entries(themeNames).map(([value, name]) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  );
}

function KeyHelp({ onClose }: { readonly onClose: () => void }): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useShortcutList();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="keys"
      onClose={onClose}
      className="border-line bg-surface text-ink m-auto w-96 max-w-[calc(100vw-2rem)] rounded-lg border p-4 backdrop:bg-black/40"
    >
      <h2 id="keys" className="mb-3 text-base font-semibold">
        Keys
      </h2>
      <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2">
        {list().map(({ key, does }) => (
          <div key={key} className="contents">
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" className="mt-4 text-right">
        <button type="submit" className="control">
          Close
        </button>
      </form>
    </dialog>
  );
}
