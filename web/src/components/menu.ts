// A <details> that is used as a menu: it closes on Escape, on a click elsewhere and when the view changes.
import { useEffect, useRef } from "preact/hooks";

export function usePageMenu() {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = () => void (box.current && (box.current.open = false));
    const onPointer = (event: PointerEvent) => {
      const inside = event.composedPath().some((one) => one === box.current || (one instanceof HTMLDialogElement));
      if (!inside) close();
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !box.current?.open) return;
      close();
      box.current.querySelector("summary")?.focus();
    };
    addEventListener("pointerdown", onPointer);
    addEventListener("keydown", onKey);
    addEventListener("hashchange", close);
    return () => {
      removeEventListener("pointerdown", onPointer);
      removeEventListener("keydown", onKey);
      removeEventListener("hashchange", close);
    };
  }, []);
  return box;
}
