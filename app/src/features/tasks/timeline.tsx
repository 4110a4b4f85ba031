import { addDays, addMonths, format, isSameMonth, parseISO, startOfMonth, startOfWeek } from "date-fns";
import { ChevronLeftIcon, ChevronRightIcon, CircleCheckIcon, TriangleAlertIcon } from "lucide-react";
import { type DragEvent, useEffect, useRef, useState } from "react";
import { PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { useIsMobile } from "@/hooks/use-is-mobile";
import { cn } from "@/lib/cn";
import { formatDay, today } from "@/lib/dates";
import { toast } from "@/lib/toast";
import { useUpdateFact } from "./mutations";
import type { Task } from "./queries";
import { isOverdue } from "./task-row";

type Dated = Task & { due_date: string };

interface TimelineProps {
  planId: string;
  tasks: Task[];
  /** Opens a task; null for those who may only look on. */
  onOpen: ((task: Task) => void) | null;
}

/** What a person may do with a task of the calendar: open it, and drag it to another day. */
type Open = TimelineProps["onOpen"];

/** Tasks by the day they are due: a month as a calendar, on a phone as a list. */
export function Timeline({ planId, tasks, onOpen }: TimelineProps) {
  const { mutateAsync: updateFact } = useUpdateFact(planId);
  const isMobile = useIsMobile();
  const dated = tasks
    .filter((task): task is Dated => task.due_date !== null)
    .sort((one, other) => one.due_date.localeCompare(other.due_date));
  const overdue = dated.filter(isOverdue);
  const [month, setMonth] = useState(() => firstMonth(dated));
  // On a phone the list begins today; a button shows the past.
  const [showsPast, setShowsPast] = useState(false);
  const [wanted, setWanted] = useState<string | null>(null);
  const timeline = useRef<HTMLDivElement>(null);
  const undated = tasks.length - dated.length;
  useEffect(() => {
    if (!wanted) return;
    const mark = timeline.current?.querySelector<HTMLElement>(`[data-task="${wanted}"]`);
    mark?.scrollIntoView({ block: "center" });
    mark?.focus({ preventScroll: true });
    setWanted(null);
  }, [wanted]);

  function leadTo(task: Dated) {
    setMonth(monthOf(task));
    setShowsPast(true);
    setWanted(task.id);
  }

  async function moveTo(id: string, day: string) {
    const task = dated.find((one) => one.id === id);
    if (!task || task.due_date === day) return;
    const saved = await updateFact({ base: task, fact: { due_date: day } }).catch(() => true);
    if (!saved) {
      toast.error("The task was not moved", { description: "Someone else changed it meanwhile. Please try again." });
    }
  }

  if (dated.length === 0) {
    return (
      <Card>
        <PageState
          heading="h3"
          title="No due dates yet"
          description="Tasks that have a due date show here, by day and month."
        />
      </Card>
    );
  }
  return (
    <div ref={timeline} className="grid gap-3">
      <p className="flex flex-wrap gap-x-4 text-muted-foreground text-sm">
        {overdue[0] && (
          <button
            type="button"
            title="Show the first of them"
            className="rounded-xs font-medium text-destructive underline decoration-from-font underline-offset-2 max-md:-my-2.5 max-md:min-h-11"
            onClick={() => overdue[0] && leadTo(overdue[0])}
          >
            {overdue.length} overdue
          </button>
        )}
        {undated > 0 && <span>{undated} without a due date</span>}
      </p>
      {isMobile ? (
        <DayList tasks={dated} showsPast={showsPast} onShowPast={() => setShowsPast(true)} onOpen={onOpen} />
      ) : (
        <Month
          tasks={dated}
          month={month}
          onMonthChange={setMonth}
          wanted={wanted}
          onOpen={onOpen}
          onMove={onOpen && ((id, day) => void moveTo(id, day))}
        />
      )}
    </div>
  );
}

const monthOf = (task: Dated) => startOfMonth(parseISO(task.due_date));

/** This one, or else the next in which something is due, or else the last: an empty calendar says nothing. */
function firstMonth(tasks: Dated[]) {
  const now = startOfMonth(new Date());
  const months = tasks.map(monthOf);
  return months.find((month) => month >= now) ?? months.at(-1) ?? now;
}

interface MonthProps {
  tasks: Dated[];
  month: Date;
  onMonthChange: (month: Date) => void;
  /** The task that must be shown. */
  wanted: string | null;
  onOpen: Open;
  /** Makes a task due on another day; null for those who may only look on. */
  onMove: ((id: string, day: string) => void) | null;
}

const dragged = "application/x-basalt-task";

function Month({ tasks, month, onMonthChange: setMonth, wanted, onOpen, onMove }: MonthProps) {
  const [over, setOver] = useState<string | null>(null);
  const dropOn = (date: string) =>
    onMove && {
      onDragOver: (event: DragEvent) => {
        if (!event.dataTransfer.types.includes(dragged)) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "move";
        setOver(date);
      },
      onDragLeave: () => setOver(null),
      onDrop: (event: DragEvent) => {
        event.preventDefault();
        setOver(null);
        onMove(event.dataTransfer.getData(dragged), date);
      },
    };

  const first = startOfWeek(month, { weekStartsOn: 1 });
  const weeks = [0, 1, 2, 3, 4, 5]
    .map((week) => [0, 1, 2, 3, 4, 5, 6].map((day) => addDays(first, week * 7 + day)))
    .filter((days, index) => index < 4 || days.some((day) => isSameMonth(day, month)));
  const byDay = Map.groupBy(tasks, (task) => task.due_date);
  const now = today();
  return (
    <Card className="overflow-hidden">
      <div className="flex items-center gap-2 border-b p-3">
        <h3 aria-live="polite" className="grow text-label">
          {format(month, "MMMM yyyy")}
        </h3>
        <Button variant="secondary" size="small" onClick={() => setMonth(startOfMonth(new Date()))}>
          Today
        </Button>
        <Button variant="ghost" size="icon" aria-label="Previous month" onClick={() => setMonth(addMonths(month, -1))}>
          <ChevronLeftIcon aria-hidden className="rtl:-scale-x-100" />
        </Button>
        <Button variant="ghost" size="icon" aria-label="Next month" onClick={() => setMonth(addMonths(month, 1))}>
          <ChevronRightIcon aria-hidden className="rtl:-scale-x-100" />
        </Button>
      </div>
      <table className="w-full table-fixed text-xs">
        <caption className="sr-only">Tasks due in {format(month, "MMMM yyyy")}</caption>
        <thead>
          <tr>
            {weeks[0]?.map((day) => (
              <th key={day.getDay()} scope="col" className="px-2 py-1.5 text-start font-medium text-muted-foreground">
                {format(day, "EEE")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeks.map((days) => (
            <tr key={days[0]?.toISOString()} className="border-t">
              {days.map((day) => {
                const date = format(day, "yyyy-MM-dd");
                return (
                  <td
                    key={date}
                    {...dropOn(date)}
                    className={cn(
                      "h-24 border-s p-1.5 align-top first:border-s-0",
                      !isSameMonth(day, month) && "bg-muted",
                      over === date && "bg-primary-soft",
                    )}
                  >
                    <time
                      dateTime={date}
                      className={cn(
                        "inline-grid size-6 place-items-center rounded-full tabular-nums",
                        date === now ? "bg-primary font-semibold text-primary-foreground" : "text-muted-foreground",
                      )}
                    >
                      {format(day, "d")}
                    </time>
                    <DayTasks key={date} date={date} tasks={byDay.get(date) ?? []} wanted={wanted} onOpen={onOpen} />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

const mostPerDay = 3;

interface DayTasksProps {
  date: string;
  tasks: Dated[];
  wanted: string | null;
  onOpen: Open;
}

/** Three of a day's tasks, and a way to the others. */
function DayTasks({ date, tasks, wanted, onOpen }: DayTasksProps) {
  const [showsAll, setShowsAll] = useState(false);
  const more = tasks.length - mostPerDay;
  const all = showsAll || tasks.slice(mostPerDay).some(({ id }) => id === wanted);
  if (all && !showsAll) setShowsAll(true);
  return (
    <>
      <ul className="mt-1 grid gap-1">
        {(all ? tasks : tasks.slice(0, mostPerDay)).map((task) => (
          <li key={task.id}>
            <TaskMark task={task} onOpen={onOpen} draggable />
          </li>
        ))}
      </ul>
      {more > 0 && (
        <button
          type="button"
          aria-expanded={all}
          className="mt-1 min-h-6 rounded-sm px-1.5 font-medium text-muted-foreground hover:text-foreground"
          onClick={() => setShowsAll(!all)}
        >
          {all ? "Show fewer" : `+${more} more`}
          <span className="sr-only"> on {formatDay(date)}</span>
        </button>
      )}
    </>
  );
}

interface DayListProps {
  tasks: Dated[];
  showsPast: boolean;
  onShowPast: () => void;
  onOpen: Open;
}

function DayList({ tasks, showsPast, onShowPast, onOpen }: DayListProps) {
  const now = today();
  const past = tasks.filter((task) => task.due_date < now);
  const shown = showsPast ? tasks : tasks.slice(past.length);
  return (
    <>
      {past.length > 0 && !showsPast && (
        <Button variant="secondary" size="small" className="justify-self-start" onClick={onShowPast}>
          Show {past.length} earlier
        </Button>
      )}
      {shown.length === 0 && <p className="text-muted-foreground text-sm">Nothing is due from today on.</p>}
      <Months tasks={shown} onOpen={onOpen} />
    </>
  );
}

function Months({ tasks, onOpen }: { tasks: Dated[]; onOpen: Open }) {
  return [...Map.groupBy(tasks, (task) => task.due_date.slice(0, 7))].map(([month, inMonth]) => (
    <section key={month}>
      <h3 className="mb-2 text-label">{format(parseISO(`${month}-01`), "MMMM yyyy")}</h3>
      <Card>
        <ul className="divide-y">
          {inMonth.map((task) => (
            <li key={task.id} className="grid gap-1 px-4 py-2.5 text-sm">
              <p className="text-muted-foreground text-xs">{formatDay(task.due_date)}</p>
              <TaskMark task={task} onOpen={onOpen} />
            </li>
          ))}
        </ul>
      </Card>
    </section>
  ));
}

interface TaskMarkProps {
  task: Task;
  onOpen: Open;
  draggable?: boolean;
}

/** A task's name, with a sign and a word where it is done or overdue. */
function TaskMark({ task, onOpen, draggable = false }: TaskMarkProps) {
  const overdue = isOverdue(task);
  const look = cn(
    "flex w-full items-start gap-1 rounded-sm px-1.5 py-0.5 text-start [overflow-wrap:anywhere]",
    task.is_completed && "bg-muted text-muted-foreground",
    overdue && "bg-destructive-soft text-destructive",
    !task.is_completed && !overdue && "bg-primary-soft text-primary-soft-foreground",
  );
  const content = (
    <>
      {task.is_completed && <CircleCheckIcon className="mt-0.5 size-3 shrink-0" aria-hidden />}
      {overdue && <TriangleAlertIcon className="mt-0.5 size-3 shrink-0" aria-hidden />}
      <span dir="auto" className="line-clamp-3">
        {(overdue || task.is_completed) && <span className="sr-only">{overdue ? "Overdue: " : "Completed: "}</span>}
        {task.title}
      </span>
    </>
  );
  if (!onOpen) {
    return (
      <p title={task.title} data-task={task.id} tabIndex={-1} className={look}>
        {content}
      </p>
    );
  }
  return (
    <button
      type="button"
      title={task.title}
      data-task={task.id}
      aria-haspopup="dialog"
      draggable={draggable}
      onDragStart={(event) => {
        event.dataTransfer.setData(dragged, task.id);
        event.dataTransfer.effectAllowed = "move";
      }}
      onClick={() => onOpen(task)}
      className={cn(look, "min-h-6 hover:underline max-md:min-h-11 max-md:items-center", draggable && "cursor-grab")}
    >
      {content}
    </button>
  );
}
