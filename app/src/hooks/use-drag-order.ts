import { type DragEvent, useRef } from "react";
import type { Side } from "@/lib/order";

/**
 * Handlers for a list that is sorted by dragging: its rows have `data-row`, the name of their group, and `data-id`, and in
 * each lies a draggable handle, `data-handle`. Lists can lie within rows of other lists. Where a row would be dropped is
 * shown by `data-drop`, written past React: nothing is rendered while the pointer moves. For keyboards and screen readers
 * there have to be other ways.
 */
export function useDragOrder(move: (id: string, targetId: string, side: Side) => void) {
  const dragged = useRef<HTMLElement | null>(null);
  const target = useRef<HTMLElement | null>(null);

  function point(row: HTMLElement | null, side?: Side) {
    if (target.current !== row) target.current?.removeAttribute("data-drop");
    target.current = row;
    if (row && side) row.dataset.drop = side;
  }

  /** The row of this list and of the dragged row's group that the pointer is over. */
  function rowAt({ target: element, currentTarget }: DragEvent<HTMLElement>) {
    const group = dragged.current?.dataset.row;
    if (!group || !(element instanceof Element)) return null;
    const row = element.closest<HTMLElement>(`[data-row="${group}"]`);
    return row && row !== dragged.current && currentTarget.contains(row) ? row : null;
  }

  return {
    onDragStart: (event: DragEvent<HTMLElement>) => {
      if (!(event.target instanceof Element) || !event.target.closest("[data-handle]")) return;
      const row = event.target.closest<HTMLElement>("[data-row]");
      if (!row) return;
      // A list around this one has nothing to do with it.
      event.stopPropagation();
      dragged.current = row;
      event.dataTransfer.effectAllowed = "move";
      const { left, top } = row.getBoundingClientRect();
      event.dataTransfer.setDragImage(row, event.clientX - left, event.clientY - top);
    },
    onDragOver: (event: DragEvent<HTMLElement>) => {
      const row = rowAt(event);
      if (!row) return point(null);
      event.preventDefault();
      event.dataTransfer.dropEffect = "move";
      const { top, height } = row.getBoundingClientRect();
      point(row, event.clientY < top + height / 2 ? "before" : "after");
    },
    onDrop: (event: DragEvent<HTMLElement>) => {
      const [id, targetId, side] = [
        dragged.current?.dataset.id,
        target.current?.dataset.id,
        target.current?.dataset.drop,
      ];
      if (!id || !targetId) return;
      event.preventDefault();
      point(null);
      move(id, targetId, side === "before" ? "before" : "after");
    },
    onDragEnd: () => {
      point(null);
      dragged.current = null;
    },
  };
}
