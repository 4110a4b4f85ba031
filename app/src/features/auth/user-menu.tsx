import type { User } from "@supabase/supabase-js";
import { CreditCardIcon, LogOutIcon, ShieldIcon, UserIcon } from "lucide-react";
import { Link, useNavigate } from "react-router";
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
import { toast } from "@/lib/toast";
import { avatarOf, displayName, initialOf } from "./person";
import { signOut } from "./sign-out";

interface UserMenuProps {
  user: User;
  isAdmin: boolean;
}

export function UserMenu({ user, isAdmin }: UserMenuProps) {
  const navigate = useNavigate();
  const name = displayName(user);

  async function leave() {
    const error = await signOut();
    if (error) toast.error("Error signing out", { description: messageOf(error) });
    else await navigate("/login");
  }

  return (
    <DropdownMenu>
      <DropdownMenuTrigger className="grid size-11 place-items-center rounded-full transition-shadow hover:shadow-[0_0_0_3px_var(--muted)]">
        <span className="sr-only">User menu</span>
        <Avatar image={avatarOf(user)} initial={initialOf(user)} className="size-9" />
      </DropdownMenuTrigger>
      <DropdownMenuContent align="end" className="w-64">
        <DropdownMenuLabel>
          <span className="block truncate font-medium">{name}</span>
          <span className="block truncate text-muted-foreground">{user.email}</span>
        </DropdownMenuLabel>
        <DropdownMenuSeparator />
        <DropdownMenuItem asChild>
          <Link to="/account">
            <UserIcon aria-hidden />
            Account
          </Link>
        </DropdownMenuItem>
        <DropdownMenuItem asChild>
          <Link to="/dashboard/subscription">
            <CreditCardIcon aria-hidden />
            Subscription
          </Link>
        </DropdownMenuItem>
        {isAdmin && (
          <DropdownMenuItem asChild>
            <Link to="/admin">
              <ShieldIcon aria-hidden />
              Admin
            </Link>
          </DropdownMenuItem>
        )}
        <DropdownMenuSeparator />
        <DropdownMenuItem onSelect={() => void leave()}>
          <LogOutIcon aria-hidden />
          Sign out
        </DropdownMenuItem>
      </DropdownMenuContent>
    </DropdownMenu>
  );
}
