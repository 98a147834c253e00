import { type RefObject, useEffect, useRef } from "react";

/** Scrolls the page to an element, as far as it is not in view, whenever something else in it is selected. */
export function useInView(selected: number | undefined): RefObject<HTMLDivElement | null> {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (selected !== undefined) element.current?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  return element;
}
