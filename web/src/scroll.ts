// The place in a page stays with its entry in the browser's history: back leads to the row that was left.
const RECORD_MS = 100; // after the last movement
const WAIT_MS = 20_000; // for the rows of the page; moving the page ends it earlier

history.scrollRestoration = "manual";
let timer: ReturnType<typeof setTimeout> | undefined;
addEventListener("hashchange", () => clearTimeout(timer));
addEventListener(
  "scroll",
  () => {
    clearTimeout(timer);
    timer = setTimeout(() => history.replaceState({ y: Math.round(scrollY) }, ""), RECORD_MS);
  },
  { passive: true },
);

// Scrolls to where this entry was left, or to the top of a new one. Its rows may come later. Call the result to end it.
export function restoreScroll(): () => void {
  const y = Number((history.state as { y?: number } | null)?.y ?? 0);
  scrollTo(0, y);
  if (Math.abs(scrollY - y) < 2) return () => {};
  const observer = new ResizeObserver(() => {
    scrollTo(0, y);
    if (Math.abs(scrollY - y) < 2) stop();
  });
  const giveUp = setTimeout(() => stop(), WAIT_MS);
  const stop = () => {
    observer.disconnect();
    clearTimeout(giveUp);
    removeEventListener("wheel", stop);
    removeEventListener("keydown", stop);
    removeEventListener("pointerdown", stop);
  };
  observer.observe(document.body);
  for (const event of ["wheel", "keydown", "pointerdown"]) addEventListener(event, stop, { once: true, passive: true });
  return stop;
}
