import type { User } from "@supabase/supabase-js";
import { LogOutIcon } from "lucide-react";
import { useNavigate } from "react-router";
import { toast } from "sonner";
import { Avatar } from "@/components/ui/avatar";
import {
  DropdownMenu,
  DropdownMenuContent,
  DropdownMenuItem,
  DropdownMenuLabel,
  DropdownMenuSeparator,
  DropdownMenuTrigger,
} from "@/components/ui/dropdown-menu";
import { messageOf } from "@/lib/errors";
import { avatarOf, displayName, initialOf } from "./person";
import { signOut } from "./sign-out";

export function UserMenu({ user }: { user: User }) {
  const navigate = useNavigate();
  const name = displayName(user);

  async function leave() {
    const error = await signOut();
    if (error) toast.error("Error signing out", { description: messageOf(error) });
    else await navigate("/login");
  }

  return (
    <DropdownMenu modal={false}>
      <DropdownMenuTrigger className="rounded-full transition-shadow hover:shadow-[0_0_0_3px_var(--muted)]">
        <span className="sr-only">User menu</span>
        <Avatar image={avatarOf(user)} initial={initialOf(user)} className="size-9" />
      </DropdownMenuTrigger>
      <DropdownMenuContent align="end" className="w-64">
        <DropdownMenuLabel>
          <span className="block truncate font-medium">{name}</span>
          <span className="block truncate text-muted-foreground">{user.email}</span>
        </DropdownMenuLabel>
        <DropdownMenuSeparator />
        <DropdownMenuItem onSelect={() => void leave()}>
          <LogOutIcon aria-hidden />
          Sign out
        </DropdownMenuItem>
      </DropdownMenuContent>
    </DropdownMenu>
  );
}
