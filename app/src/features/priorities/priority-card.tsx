import { PencilIcon, Trash2Icon } from "lucide-react";
import { type ReactNode, useId } from "react";
import { DragHandle } from "@/components/drag-handle";
import { InlineEdit } from "@/components/inline-edit";
import { MoveItems, type Step } from "@/components/move-items";
import { RichText } from "@/components/rich-text";
import { Card } from "@/components/ui/card";
import { Collapsible, CollapsibleContent, CollapsibleTrigger } from "@/components/ui/collapsible";
import { DropdownMenu, DropdownMenuContent, DropdownMenuItem, MoreButton } from "@/components/ui/dropdown-menu";
import { Progress } from "@/components/ui/progress";
import { formatAge, formatInstant } from "@/lib/dates";
import { type Done, percentOf } from "@/lib/progress";
import { titleFaultOf } from "@/lib/titles";
import type { Priority } from "./queries";

interface PriorityCardProps {
  priority: Priority;
  done: Done;
  editable: boolean;
  first: boolean;
  last: boolean;
  open: boolean;
  onOpenChange: () => void;
  onMove: (step: Step) => void;
  onEdit: () => void;
  /** Whether it was saved over the title that was seen. */
  onRename: (title: string, seen: string) => Promise<boolean>;
  onDelete: () => void;
  /** The tasks, drawn while the card is open. */
  children: ReactNode;
}

export function PriorityCard({
  priority,
  done,
  editable,
  first,
  last,
  open,
  onOpenChange,
  onMove,
  onEdit,
  onRename,
  onDelete,
  children,
}: PriorityCardProps) {
  const titleId = useId();
  const percent = percentOf(done);
  const heading = (
    <h3 id={titleId} dir="auto" className="inline text-label [overflow-wrap:anywhere]">
      {priority.title}
    </h3>
  );
  return (
    <Card className="group/card">
      <article aria-labelledby={titleId}>
        <div className="grid gap-2 p-3 md:gap-3 md:p-4">
          <header className="relative flex items-start gap-3">
            {editable && !(first && last) && <DragHandle className="-start-4 group-hover/card:opacity-100" />}
            <div className="min-w-0 grow">
              {editable ? (
                <InlineEdit
                  label={`Rename priority ${priority.title}`}
                  value={priority.title}
                  faultOf={titleFaultOf}
                  save={onRename}
                  className="text-label"
                >
                  {heading}
                </InlineEdit>
              ) : (
                heading
              )}
              <p className="text-muted-foreground text-xs">
                Created{" "}
                <time dateTime={priority.created_at} title={formatInstant(priority.created_at)}>
                  {formatAge(priority.created_at)}
                </time>
              </p>
            </div>
            {editable && (
              <div className="-mt-1.5 -mr-2 print:hidden">
                <DropdownMenu>
                  <MoreButton label={`Actions for priority ${priority.title}`} />
                  <DropdownMenuContent align="end">
                    <DropdownMenuItem onSelect={onEdit}>
                      <PencilIcon aria-hidden />
                      Edit priority
                    </DropdownMenuItem>
                    <MoveItems first={first} last={last} onMove={onMove} />
                    <DropdownMenuItem tone="destructive" onSelect={onDelete}>
                      <Trash2Icon aria-hidden />
                      Delete priority
                    </DropdownMenuItem>
                  </DropdownMenuContent>
                </DropdownMenu>
              </div>
            )}
          </header>
          {priority.description ? (
            <RichText html={priority.description} className="text-sm" />
          ) : (
            <p className="text-muted-foreground text-sm">No description provided.</p>
          )}
          <div className="flex items-center gap-3 text-sm tabular-nums">
            <span className="whitespace-nowrap text-muted-foreground">
              Tasks {done.completed}/{done.total}
            </span>
            <Progress percent={percent} label={`Progress of ${priority.title}`} className="grow" />
            <span className="w-10 text-end font-medium">{percent}%</span>
          </div>
        </div>
        <Collapsible open={open} onOpenChange={onOpenChange} className="border-t">
          <CollapsibleTrigger className="w-full px-4">View Tasks ({done.total})</CollapsibleTrigger>
          {/* Not drawn once more to be folded away: a thousand tasks take seconds. */}
          <CollapsibleContent className="border-t">{open && children}</CollapsibleContent>
        </Collapsible>
      </article>
    </Card>
  );
}

/** What stands for a card that is far from the screen: its title, for screen readers and searches in the page. */
export function PriorityCardOutline({ title }: { title: string }) {
  const titleId = useId();
  return (
    <Card className="min-h-40">
      <article aria-labelledby={titleId} className="p-4">
        <h3 id={titleId} dir="auto" className="text-label [overflow-wrap:anywhere]">
          {title}
        </h3>
      </article>
    </Card>
  );
}
