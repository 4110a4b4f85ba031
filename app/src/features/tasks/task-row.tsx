import { CalendarDaysIcon, PencilIcon, Trash2Icon, TriangleAlertIcon, UsersIcon } from "lucide-react";
import { type KeyboardEvent, type MouseEvent, memo, type ReactNode, useId, useState } from "react";
import { CommentsButton } from "@/components/comments-button";
import { DragHandle } from "@/components/drag-handle";
import { InlineEdit } from "@/components/inline-edit";
import { MoveItems, type Step } from "@/components/move-items";
import { RichText } from "@/components/rich-text";
import { Checkbox } from "@/components/ui/checkbox";
import { DropdownMenu, DropdownMenuContent, DropdownMenuItem, MoreButton } from "@/components/ui/dropdown-menu";
import { cn } from "@/lib/cn";
import { formatDay, today } from "@/lib/dates";
import { titleFaultOf } from "@/lib/titles";
import { FactEdit, type SaveFact } from "./fact-edit";
import type { Task } from "./queries";

const focusAreaFaultOf = (title: string) => titleFaultOf(title, "Focus Area");

export interface TaskActions {
  toggle: (task: Task, isCompleted: boolean) => void;
  edit: (task: Task) => void;
  /** Whether it was saved over the title that was seen. */
  rename: (task: Task, title: string, seen: string) => Promise<boolean>;
  remove: (task: Task) => void;
  /** Within its group, the open or the completed ones. */
  move: (task: Task, step: Step) => void;
  /** Whether tasks have an order of their own, which a person can change. */
  canMove: boolean;
  saveFact: SaveFact;
  add: () => void;
}

interface TaskRowProps {
  task: Task;
  /** Of its group. */
  first: boolean;
  last: boolean;
  /** What this person may do; nothing for viewers. */
  actions: TaskActions | null;
}

/** Remembered: a check-off among a thousand tasks draws one row again. */
export const TaskRow = memo(function TaskRow({ task, first, last, actions }: TaskRowProps) {
  const titleId = useId();
  const [open, setOpen] = useState(false);
  const done = task.is_completed;
  const title = (
    <span id={titleId} dir="auto" className={cn(done && "line-through decoration-from-font")}>
      {task.title}
    </span>
  );
  // Who may edit opens the task; others unfold what it says.
  const press = actions ? () => actions.edit(task) : task.description ? () => setOpen(!open) : null;
  const shownTitle = press ? (
    <button
      type="button"
      aria-expanded={actions ? undefined : open}
      aria-haspopup={actions ? "dialog" : undefined}
      className="text-start font-medium hover:text-primary"
      onClick={press}
    >
      {title}
    </button>
  ) : (
    <span className="font-medium">{title}</span>
  );
  return (
    <tr
      data-row={done ? "completed" : "open"}
      data-id={task.id}
      className={cn(
        "group/row border-t data-[drop=after]:shadow-[inset_0_-3px_var(--color-primary)] data-[drop=before]:shadow-[inset_0_3px_var(--color-primary)]",
        done && "text-muted-foreground",
      )}
      onKeyDown={(event) => actions && handleKeys(event, task, actions)}
    >
      <td className="relative w-11 py-3 ps-4 align-top">
        {actions?.canMove && !(first && last) && <DragHandle className="start-0 group-hover/row:opacity-100" />}
        <Checkbox
          data-task-check
          checked={done}
          disabled={!actions}
          aria-labelledby={titleId}
          aria-keyshortcuts={actions ? "ArrowUp ArrowDown Alt+ArrowUp Alt+ArrowDown Space E N" : undefined}
          className="mt-0.5"
          onCheckedChange={(checked) => actions?.toggle(task, checked === true)}
        />
      </td>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: a larger target for what the title, a button, does */}
      <td
        className={cn("min-w-0 py-2.5 [overflow-wrap:anywhere]", actions && "cursor-pointer")}
        onClick={(event) => actions && isPlainPress(event) && actions.edit(task)}
      >
        {actions ? (
          <InlineEdit
            label={`Rename ${task.title}`}
            value={task.title}
            faultOf={focusAreaFaultOf}
            save={(text, seen) => actions.rename(task, text, seen)}
            className="font-medium"
          >
            {shownTitle}
          </InlineEdit>
        ) : (
          shownTitle
        )}
        {task.description && (
          <RichText
            html={task.description}
            className={cn("mt-0.5 text-muted-foreground", !open && "line-clamp-2 print:line-clamp-none")}
          />
        )}
        <TaskFacts task={task} save={actions?.saveFact}>
          <CommentsButton task={task} />
        </TaskFacts>
      </td>
      <td className="w-12 py-0.5 pe-2 align-top print:hidden">
        {actions && (
          <DropdownMenu>
            <MoreButton label={`Actions for ${task.title}`} />
            <DropdownMenuContent align="end">
              <DropdownMenuItem onSelect={() => actions.edit(task)}>
                <PencilIcon aria-hidden />
                Edit task
              </DropdownMenuItem>
              {actions.canMove && <MoveItems first={first} last={last} onMove={(step) => actions.move(task, step)} />}
              <DropdownMenuItem tone="destructive" onSelect={() => actions.remove(task)}>
                <Trash2Icon aria-hidden />
                Delete task
              </DropdownMenuItem>
            </DropdownMenuContent>
          </DropdownMenu>
        )}
      </td>
    </tr>
  );
});

/** Neither on something that has a purpose of its own, nor the end of selecting text. */
function isPlainPress({ target, currentTarget }: MouseEvent<HTMLElement>) {
  if (!(target instanceof Element) || !currentTarget.contains(target)) return false;
  return !target.closest("a, button, input, label") && (window.getSelection()?.isCollapsed ?? true);
}

interface TaskFactsProps {
  task: Task;
  /** Changes them where they stand; for those who may. */
  save?: SaveFact | undefined;
  /** Follows the facts on their line. */
  children?: ReactNode;
}

/** How it is measured, until when, by whom. */
export function TaskFacts({ task, save, children }: TaskFactsProps) {
  const overdue = isOverdue(task);
  const isEmpty = !task.measure_success && !task.due_date && task.responsible_party.length === 0;
  if (isEmpty && (!save || task.is_completed)) return children ?? null;
  const due = task.due_date && (
    <span className={cn("inline-flex items-center gap-1.5", overdue && "font-medium text-destructive")}>
      {overdue ? (
        <TriangleAlertIcon className="size-3.5" aria-hidden />
      ) : (
        <CalendarDaysIcon className="size-3.5" aria-hidden />
      )}
      Due {formatDay(task.due_date)}
      {overdue && " (overdue)"}
    </span>
  );
  const people = task.responsible_party.length > 0 && (
    <span className="inline-flex min-w-0 items-center gap-1.5">
      <UsersIcon className="size-3.5 shrink-0" aria-hidden />
      <span className="sr-only">Responsible: </span>
      {task.responsible_party.join(", ")}
    </span>
  );
  return (
    <div className="mt-1 grid gap-1 text-muted-foreground text-xs">
      {task.measure_success && (
        <p dir="auto" className="whitespace-pre-line">
          <span className="font-medium">Success:</span> {task.measure_success}
        </p>
      )}
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
        {save ? (
          <>
            <FactEdit task={task} kind="due" save={save}>
              {due}
            </FactEdit>
            <FactEdit task={task} kind="people" save={save}>
              {people}
            </FactEdit>
          </>
        ) : (
          <>
            {due}
            {people}
          </>
        )}
        {children}
      </div>
    </div>
  );
}

/** Its day is over, and it is not done. */
export function isOverdue(task: Pick<Task, "due_date" | "is_completed">) {
  return !task.is_completed && task.due_date !== null && task.due_date < today();
}

/**
 * In a task's row: up and down go to the next task, also that of another priority, and move the task with Alt; e edits, n
 * adds. Space is the checkbox's own.
 */
function handleKeys(event: KeyboardEvent<HTMLElement>, task: Task, actions: TaskActions) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey) return;
  // An open menu has its own keys.
  if (event.target instanceof Element && event.target.closest('[role="menu"]')) return;
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.altKey) {
    if (!step) return;
    actions.move(task, step < 0 ? "up" : "down");
  } else if (step) {
    const checks = [...document.querySelectorAll<HTMLElement>("[data-task-check]")];
    const own = event.currentTarget.querySelector<HTMLElement>("[data-task-check]");
    const next = own && checks[checks.indexOf(own) + step];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "e") actions.edit(task);
  else if (event.key === "n") actions.add();
  else return;
  event.preventDefault();
}
