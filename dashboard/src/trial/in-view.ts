import { type KeyboardEvent, type RefObject, useEffect, useRef } from "react";

/** Scrolls the page to an element, as far as it is not in view, whenever something else in it is selected. */
export function useInView(selected: number | undefined): RefObject<HTMLDivElement | null> {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (selected !== undefined) element.current?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  return element;
}

/** Where the focus stays when something is selected. */
const keepsFocus = "input, select, [role=tab]";

/** Gives the focus to the button of what is selected in a list, as soon as it is drawn. */
export function useFocusOnSelected(list: RefObject<HTMLElement | null>, selected: number | undefined): void {
  const isWaiting = useRef(false);
  useEffect(() => {
    isWaiting.current = selected !== undefined;
  }, [selected]);
  // After each drawing: a long list scrolls first.
  useEffect(() => {
    if (!isWaiting.current) return;
    const button = list.current?.querySelector<HTMLElement>("[aria-pressed=true]");
    if (button === null || button === undefined) return;
    isWaiting.current = false;
    if (document.activeElement?.matches(keepsFocus) !== true) button.focus({ preventScroll: true });
  });
}

/** Gives the focus back to the button of what is selected, before its details close. */
export function focusSelected(): void {
  document.querySelector<HTMLElement>("main [aria-pressed=true]")?.focus({ preventScroll: true });
}

/** Moves the selection of a list with the arrow keys: in the order of Tab, a list is one stop, however long it is. */
export function arrowKeys(move: (by: -1 | 1) => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  };
}
