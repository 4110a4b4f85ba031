import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Trash2Icon } from "lucide-react";
import { Fragment, useLayoutEffect, useMemo, useRef, useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { ErrorState } from "@/components/page-state";
import { PersonFace } from "@/components/person-face";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Dialog, DialogContent, useDialogGuard } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Skeleton } from "@/components/ui/skeleton";
import { formatAge, formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { type Person, peopleQuery } from "@/lib/people";
import { CommentForm } from "./comment-form";
import { partsOf } from "./mentions";
import { useAddComment, useDeleteComment } from "./mutations";
import { type Comment, commentListQuery } from "./queries";

interface CommentsDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
  task: { id: string; title: string };
  userId: string;
  /** Owners and managers comment, owners also delete what others wrote. */
  mayComment: boolean;
  mayDeleteAll: boolean;
}

/** What was said about a task. */
export function CommentsDialog({ open, onOpenChange, ...props }: CommentsDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent title={props.task.title} description="Comments on this task" size="wide">
        <Comments key={props.task.id} {...props} />
      </DialogContent>
    </Dialog>
  );
}

function Comments({
  planId,
  task,
  userId,
  mayComment,
  mayDeleteAll,
}: Omit<CommentsDialogProps, "open" | "onOpenChange">) {
  const comments = useInfiniteQuery(commentListQuery(planId, task.id));
  const people = useQuery(peopleQuery(planId));
  const add = useAddComment(planId, task.id);
  const remove = useDeleteComment(planId, task.id);
  const [subject, setSubject] = useState<Comment | null>(null);
  const [deleting, setDeleting] = useState(false);
  const [typed, setTyped] = useState(false);
  useDialogGuard(typed);

  const everyone = useMemo(() => [...(people.data?.values() ?? [])], [people.data]);
  const others = useMemo(() => everyone.filter(({ id, isMember }) => isMember && id !== userId), [everyone, userId]);

  // The newest is at the end, and in view; older ones that are fetched do not move what is being read.
  const box = useRef<HTMLDivElement>(null);
  const fromEnd = useRef(0);
  const list = comments.data;
  useLayoutEffect(() => {
    if (list && box.current) box.current.scrollTop = box.current.scrollHeight - fromEnd.current;
  }, [list]);
  const keepPlace = (next: number) => {
    fromEnd.current = next;
  };

  return (
    <>
      <DialogBody
        ref={box}
        className="grid content-start gap-4"
        onScroll={({ currentTarget }) => keepPlace(currentTarget.scrollHeight - currentTarget.scrollTop)}
      >
        {comments.isPending ? (
          <div role="status" className="grid gap-3">
            <span className="sr-only">Loading comments...</span>
            <Skeleton className="h-14" />
            <Skeleton className="h-14 w-4/5" />
          </div>
        ) : !list ? (
          <ErrorState
            size="small"
            title="The comments could not be loaded"
            description={messageOf(comments.error)}
            retrying={comments.isFetching}
            onRetry={() => void comments.refetch()}
          />
        ) : list.length === 0 ? (
          <p className="py-6 text-center text-muted-foreground text-sm">
            {mayComment ? "No comments yet. Ask a question, or say how it is going." : "No comments yet."}
          </p>
        ) : (
          <>
            {comments.hasNextPage && (
              <SubmitButton
                type="button"
                variant="secondary"
                size="small"
                className="justify-self-center"
                busy={comments.isFetchingNextPage}
                busyLabel="Loading..."
                disabled={comments.isFetching}
                onClick={() => void comments.fetchNextPage()}
              >
                Show older comments
              </SubmitButton>
            )}
            <ol aria-label="Comments" className="grid gap-4">
              {list.map((comment) => (
                <CommentItem
                  key={comment.id}
                  comment={comment}
                  author={comment.author_id ? people.data?.get(comment.author_id) : undefined}
                  named={everyone}
                  onDelete={
                    mayDeleteAll || (mayComment && comment.author_id === userId)
                      ? () => {
                          setSubject(comment);
                          setDeleting(true);
                        }
                      : null
                  }
                />
              ))}
            </ol>
          </>
        )}
      </DialogBody>
      {mayComment && (
        <div className="shrink-0 border-t bg-surface px-5 py-4 pb-[max(1rem,env(safe-area-inset-bottom))] sm:px-6">
          <CommentForm
            people={others}
            busy={add.isPending}
            onTyped={setTyped}
            onSend={async (comment) => {
              keepPlace(0);
              try {
                await add.mutateAsync(comment);
                return true;
              } catch {
                // Reported by the mutation; the text stays.
                return false;
              }
            }}
          />
        </div>
      )}
      {subject && (
        <ConfirmDialog
          open={deleting}
          onOpenChange={setDeleting}
          title="Delete Comment"
          description="Are you sure you want to delete this comment? This action cannot be undone."
          confirmLabel="Delete Comment"
          busyLabel="Deleting..."
          onConfirm={() => remove.mutateAsync(subject.id)}
        />
      )}
    </>
  );
}

interface CommentItemProps {
  comment: Comment;
  author: Person | undefined;
  named: Person[];
  onDelete: (() => void) | null;
}

function CommentItem({ comment, author, named, onDelete }: CommentItemProps) {
  const name = author?.name ?? "A former member";
  // Only who got a mail is marked: a name alone is a word like others.
  const mentioned = named.filter(({ id }) => comment.mentions.includes(id));
  return (
    <li className="flex gap-3">
      <PersonFace person={author} />
      <div className="min-w-0 grow">
        <p className="flex min-h-8 flex-wrap items-center gap-x-2 text-sm">
          <span className="font-semibold">{name}</span>
          <time
            dateTime={comment.created_at}
            title={formatInstant(comment.created_at)}
            className="text-muted-foreground text-xs"
          >
            {formatAge(comment.created_at)}
          </time>
          {onDelete && (
            <Button
              variant="ghost"
              size="small"
              className="ms-auto -my-1 px-2 text-muted-foreground"
              aria-label={`Delete the comment of ${name}`}
              onClick={onDelete}
            >
              <Trash2Icon aria-hidden />
            </Button>
          )}
        </p>
        <p dir="auto" className="whitespace-pre-line text-[0.9375rem] [overflow-wrap:anywhere]">
          {partsOf(comment.body, mentioned).map((part, index) =>
            typeof part === "string" ? (
              // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
              <Fragment key={index}>{part}</Fragment>
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
              <strong key={index} className="font-semibold text-primary">
                @{part.name}
              </strong>
            ),
          )}
        </p>
      </div>
    </li>
  );
}
