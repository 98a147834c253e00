import { createContext, type ReactElement, type ReactNode, useContext, useEffect, useMemo } from "react";

/** A key that does something on the page that is shown. */
export interface Shortcut {
  /** As in `KeyboardEvent.key`. */
  readonly key: string;
  /** What it does, for the list of keys. */
  readonly does: string;
  readonly run: () => void;
}

/** The shortcuts of all components that are shown, in sets. */
type Registry = Set<readonly Shortcut[]>;

const ShortcutContext = createContext<Registry>(new Set());

/** Hears keys for the whole page, but for those that are typed into a field. */
export function ShortcutScope({ children }: { readonly children: ReactNode }): ReactElement {
  const registry = useMemo<Registry>(() => new Set(), []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && target.matches("input[type=search]")) {
        // Else the browser empties the field.
        event.preventDefault();
        target.blur();
        return;
      }
      if (target.closest("input, select, textarea, dialog, [contenteditable]") !== null) return;
      const shortcut = shortcutsOf(registry).find(({ key }) => key === event.key);
      if (shortcut === undefined) return;
      event.preventDefault();
      shortcut.run();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [registry]);
  return <ShortcutContext value={registry}>{children}</ShortcutContext>;
}

/** Shortcuts as long as the component is shown. Of two with one key that of the component around the other counts. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const registry = useContext(ShortcutContext);
  useEffect(() => {
    registry.add(shortcuts);
    return () => void registry.delete(shortcuts);
  }, [registry, shortcuts]);
}

/** Gives all shortcuts of the moment. */
export function useShortcutList(): () => readonly Shortcut[] {
  const registry = useContext(ShortcutContext);
  return () => shortcutsOf(registry);
}

/** Effects of inner components run first, so what comes later is further out. */
function shortcutsOf(registry: Registry): readonly Shortcut[] {
  return [...new Map([...registry].flat().map((shortcut) => [shortcut.key, shortcut])).values()];
}
