import { useEffect } from "react";

interface ShowItemProps {
  /** Of a priority or a task in the plan's list. */
  id: string;
  priorityId: string;
}

const patienceMs = 3000;
/** A dialog that closes gives the focus back some moments after it has left the page. */
const framesFocused = 10;

/** Scrolls to a row of the plan's list and focuses it. A task's row may be rendered only when its priority comes near. */
export function ShowItem({ id, priorityId }: ShowItemProps) {
  useEffect(() => {
    const until = performance.now() + patienceMs;
    let frame = 0;
    let nearby = false;
    let focused = 0;
    const look = () => {
      const row = rowOf(id);
      if (row && !document.querySelector("[role=dialog]")) {
        focused = document.activeElement === row ? focused + 1 : 0;
        if (focused === 0) show(row);
        if (focused === framesFocused) return;
      }
      if (!nearby && !row) {
        const priority = rowOf(priorityId);
        priority?.scrollIntoView({ block: "start" });
        // Folded away, as all are in a plan with very many tasks.
        priority?.querySelector<HTMLElement>("button[aria-expanded=false]")?.click();
        nearby = priority !== null;
      }
      if (performance.now() < until) frame = requestAnimationFrame(look);
    };
    frame = requestAnimationFrame(look);
    return () => cancelAnimationFrame(frame);
  }, [id, priorityId]);
  return null;
}

const rowOf = (id: string) => document.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`);

function show(row: HTMLElement) {
  row.scrollIntoView({ block: "center" });
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
}
