import { EyeIcon, EyeOffIcon } from "lucide-react";
import { type ComponentProps, useState } from "react";
import { Input } from "@/components/ui/input";
import { cn } from "@/lib/cn";

/** A password, which the person may look at. */
export function PasswordInput({ className, ...props }: Omit<ComponentProps<"input">, "type">) {
  const [shown, setShown] = useState(false);
  const Icon = shown ? EyeOffIcon : EyeIcon;
  return (
    <div className="relative">
      <Input
        type={shown ? "text" : "password"}
        spellCheck={false}
        autoCapitalize="none"
        className={cn("pe-12", className)}
        {...props}
      />
      <button
        type="button"
        aria-label={shown ? "Hide what you typed" : "Show what you typed"}
        aria-pressed={shown}
        className="absolute inset-y-0 end-0 grid w-11 place-items-center rounded-e-md text-muted-foreground transition-colors hover:text-foreground focus-visible:outline-offset-[-2px]"
        onClick={() => setShown(!shown)}
      >
        <Icon className="size-4" aria-hidden />
      </button>
    </div>
  );
}
