import { useQuery } from "@tanstack/react-query";
import { CheckIcon, LinkIcon, MailIcon, Trash2Icon, UserPlusIcon, UsersIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { LimitNote } from "@/components/limit-note";
import { ErrorState, PageState } from "@/components/page-state";
import { PersonFace } from "@/components/person-face";
import { SubmitButton } from "@/components/submit-button";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { type Column, DataTable } from "@/components/ui/data-table";
import {
  DropdownMenu,
  DropdownMenuContent,
  DropdownMenuItem,
  DropdownMenuLabel,
  DropdownMenuSeparator,
  MoreButton,
} from "@/components/ui/dropdown-menu";
import { Skeleton } from "@/components/ui/skeleton";
import { messageOf } from "@/lib/errors";
import { peopleQuery } from "@/lib/people";
import { planLimitsQuery } from "@/lib/plan-limits";
import { canEdit, type PlanRole, planRoles } from "@/lib/plan-role";
import { toast } from "@/lib/toast";
import { inviteUrl, isExpired } from "./invitation";
import { InviteDialog } from "./invite-dialog";
import { useChangeRole, useMailAgain, useRemoveMember } from "./mutations";
import { invitationMailQuery, type MailState, type Member, memberListQuery } from "./queries";
import { roleRights } from "./role-rights";

interface TeamProps {
  plan: { id: string; title: string };
  user: { id: string; email?: string | undefined };
  role: PlanRole | null;
  /** The person has taken themself out of the plan. */
  onLeft: () => void;
}

const lastOwner = "Cannot remove the last owner of the plan. Assign another owner first";

/** Who works on the plan, and as what. */
export function Team({ plan, user, role, onLeft }: TeamProps) {
  const members = useQuery(memberListQuery(plan.id));
  const people = useQuery(peopleQuery(plan.id));
  const limits = useQuery({ ...planLimitsQuery(plan.id), enabled: canEdit(role) }).data ?? null;
  const mails = useQuery({ ...invitationMailQuery(plan.id), enabled: canEdit(role) });
  const mailAgain = useMailAgain({ planId: plan.id, planTitle: plan.title, inviterEmail: user.email ?? "" });
  const { mutate: changeRole } = useChangeRole(plan.id);
  const removeMember = useRemoveMember(plan.id);
  const [inviting, setInviting] = useState(false);
  const [removing, setRemoving] = useState(false);
  const [subject, setSubject] = useState<Member | null>(null);
  const isMe = (member: Member) => member.user_id === user.id;
  const owners = (members.data ?? []).filter((member) => member.role === "owner" && member.invite_accepted);
  const nameOf = (member: Member) => member.email ?? "a member without an address";

  const inviteButton = canEdit(role) && (
    <Button onClick={() => setInviting(true)}>
      <UserPlusIcon aria-hidden />
      Invite Member
    </Button>
  );

  const columns: Column<Member>[] = [
    {
      key: "email",
      header: "Email",
      isRowHeader: true,
      cell: (member) => {
        const person = member.user_id ? people.data?.get(member.user_id) : undefined;
        const address = member.email ?? "No address";
        return (
          <span className="flex min-w-0 items-center gap-3">
            <PersonFace person={person ?? { name: address, picture: undefined }} />
            <span className="grid min-w-0">
              <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
                {person?.name ?? address}
                {isMe(member) && <span className="font-normal text-muted-foreground">(you)</span>}
                {!member.invite_accepted && <Badge tone="warning">Pending</Badge>}
              </span>
              {person && <span className="font-normal text-muted-foreground text-xs">{address}</span>}
            </span>
          </span>
        );
      },
    },
    { key: "role", header: "Role", className: "md:w-40", cell: (member) => roleRights[member.role].name },
    {
      key: "status",
      header: "Status",
      className: "md:w-96",
      cell: (member) => (
        <Status
          member={member}
          mail={mails.data?.get(member.id)}
          mailing={mailAgain.isPending && mailAgain.variables.email === member.email}
          onMailAgain={() =>
            mailAgain.mutate({ email: member.email ?? "", role: member.role, token: member.invite_token })
          }
        />
      ),
    },
  ];
  if (role === "owner") {
    columns.push({
      key: "actions",
      header: "Actions",
      unlabelled: true,
      align: "end",
      className: "md:w-20 max-md:absolute max-md:top-1 max-md:right-2",
      cell: (member) => {
        const onlyOwner = isMe(member) && owners.length === 1;
        return (
          <DropdownMenu>
            <MoreButton label={`Actions for ${nameOf(member)}`} />
            <DropdownMenuContent align="end" className="text-start">
              {!(isMe(member) && member.role === "owner") && (
                <>
                  <DropdownMenuLabel className="font-semibold text-muted-foreground text-xs">
                    Change role
                  </DropdownMenuLabel>
                  {planRoles.map((next) => (
                    <DropdownMenuItem
                      key={next}
                      disabled={next === member.role}
                      onSelect={() => changeRole({ id: member.id, role: next })}
                    >
                      <CheckIcon aria-hidden className={next === member.role ? "" : "invisible"} />
                      <span>
                        {roleRights[next].name}
                        <span className="block text-muted-foreground text-xs">{roleRights[next].rights}</span>
                      </span>
                    </DropdownMenuItem>
                  ))}
                  <DropdownMenuSeparator />
                </>
              )}
              <DropdownMenuItem
                tone="destructive"
                disabled={onlyOwner}
                onSelect={() => {
                  setSubject(member);
                  setRemoving(true);
                }}
              >
                <Trash2Icon aria-hidden />
                Remove
              </DropdownMenuItem>
              {onlyOwner && <p className="max-w-56 px-2.5 pb-2 text-muted-foreground text-xs">{lastOwner}</p>}
            </DropdownMenuContent>
          </DropdownMenu>
        );
      },
    });
  }

  return (
    <section aria-label="Team">
      <div className="mb-4 flex min-h-10 flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h2 className="text-heading">
          Team Members{" "}
          {members.data && (
            <span className="font-normal text-muted-foreground tabular-nums">({members.data.length})</span>
          )}
        </h2>
        {members.data && members.data.length > 0 && inviteButton}
      </div>
      {limits?.maxMembers != null && (
        <LimitNote
          text={`${limits.members} of ${limits.maxMembers === 1 ? "1 person" : `${limits.maxMembers} people`}`}
          used={limits.members}
          of={limits.maxMembers}
          name={limits.name}
          isMine={limits.isMine}
          more="more people"
        />
      )}
      <Card>
        {members.isPending ? (
          <div role="status" className="grid gap-4 p-4">
            <span className="sr-only">Loading members...</span>
            <Skeleton className="h-6 w-2/3" />
            <Skeleton className="h-6 w-1/2" />
            <Skeleton className="h-6 w-3/5" />
          </div>
        ) : !members.data ? (
          <ErrorState
            title="The team could not be loaded"
            heading="h3"
            description={messageOf(members.error)}
            retrying={members.isFetching}
            onRetry={() => void members.refetch()}
          />
        ) : members.data.length === 0 ? (
          <PageState
            art={<UsersIcon className="size-10 text-muted-foreground" aria-hidden />}
            heading="h3"
            title="No Team Members"
            description="Invite colleagues to work on this plan with you."
          >
            {inviteButton}
          </PageState>
        ) : (
          <DataTable
            caption="Team members"
            columns={columns}
            rows={members.data}
            rowKey={(member) => member.id}
            rowClassName={() => "max-md:relative"}
          />
        )}
      </Card>
      {role && canEdit(role) && (
        <InviteDialog
          // A form of its own for each invitation.
          key={String(inviting)}
          open={inviting}
          onOpenChange={setInviting}
          planId={plan.id}
          planTitle={plan.title}
          inviterEmail={user.email ?? ""}
          inviterRole={role}
        />
      )}
      {subject && (
        <ConfirmDialog
          open={removing}
          onOpenChange={setRemoving}
          title="Remove Member"
          description={
            subject.invite_accepted
              ? `${isMe(subject) ? "You" : nameOf(subject)} will no longer see this plan.`
              : `The invitation of ${nameOf(subject)} will no longer work.`
          }
          confirmLabel="Remove"
          busyLabel="Removing..."
          onConfirm={async () => {
            await removeMember.mutateAsync(subject.id);
            if (isMe(subject)) onLeft();
          }}
        />
      )}
    </section>
  );
}

interface StatusProps {
  member: Member;
  /** How the newest mail of the invitation fared, if that is known. */
  mail: MailState | undefined;
  mailing: boolean;
  onMailAgain: () => void;
}

function Status({ member, mail, mailing, onMailAgain }: StatusProps) {
  if (member.invite_accepted) return "Active";
  const { invite_token: token, plan_id: planId } = member;
  const expired = isExpired(member.created_at);
  const name = member.email ?? "this member";
  return (
    <span className="flex flex-wrap items-center gap-x-3 gap-y-1 max-md:justify-end">
      {expired ? "Expired" : "Pending Acceptance"}
      {!expired && mail === "failed" && <Badge tone="destructive">Mail not delivered</Badge>}
      {!expired && mail === "waiting" && <Badge tone="warning">Mail delayed</Badge>}
      {token && (
        <span className="-my-2 flex flex-wrap gap-x-1 max-md:justify-end">
          {!expired && (
            <Button
              variant="ghost"
              size="small"
              className="text-primary"
              aria-label={`Copy link of the invitation for ${name}`}
              onClick={() => void copyLink(inviteUrl({ token, planId }))}
            >
              <LinkIcon aria-hidden />
              Copy link
            </Button>
          )}
          <SubmitButton
            type="button"
            variant="ghost"
            size="small"
            className="text-primary"
            aria-label={`Send again the invitation for ${name}`}
            busy={mailing}
            busyLabel="Sending..."
            disabled={mailing}
            onClick={onMailAgain}
          >
            <MailIcon aria-hidden />
            Send again
          </SubmitButton>
        </span>
      )}
    </span>
  );
}

async function copyLink(link: string) {
  try {
    await navigator.clipboard.writeText(link);
    toast.success("Invite link copied");
  } catch {
    // The browser denies the clipboard, or the page was loaded over plain HTTP.
    toast.info("Copy this link", { description: link, duration: 30_000 });
  }
}
