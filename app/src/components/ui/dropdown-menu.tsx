import { EllipsisIcon } from "lucide-react";
import { Slot } from "radix-ui";
import {
  type ComponentProps,
  createContext,
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useContext,
  useId,
  useRef,
  useState,
} from "react";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";
import type { MenuParts } from "./dropdown-menu-parts";

// What lies in a menu, and what puts it in its place, is a twentieth of a screen's scripts. It is fetched when the
// pointer or the focus reaches a trigger, and the menu opens as soon as it is here.
let loaded: MenuParts | null = null;
async function load() {
  loaded = (await import("./dropdown-menu-parts")).menuParts;
  return loaded;
}

interface Menu {
  id: string;
  parts: MenuParts | null;
  trigger: RefObject<HTMLButtonElement | null>;
  open: boolean;
  setOpen: (open: boolean) => void;
  /** Opened by a key: the focus goes to the first item. */
  byKey: RefObject<boolean>;
  /** Fetches the parts. */
  reach: () => void;
}
const MenuContext = createContext<Menu | null>(null);

function useMenu() {
  const menu = useContext(MenuContext);
  if (!menu) throw new Error("a part of a menu stands in no DropdownMenu");
  return menu;
}

function useParts() {
  const { parts } = useMenu();
  if (!parts) throw new Error("a part of a menu stands in no DropdownMenuContent");
  return parts;
}

export function DropdownMenu({ children }: { children: ReactNode }) {
  const id = useId();
  const trigger = useRef<HTMLButtonElement>(null);
  const [parts, setParts] = useState(loaded);
  const [open, setOpen] = useState(false);
  const byKey = useRef(false);
  const reach = () => {
    // Without a connection nothing opens; the next press tries again.
    if (!parts) load().then(setParts, () => setOpen(false));
  };
  return <MenuContext value={{ id, parts, trigger, open, setOpen, byKey, reach }}>{children}</MenuContext>;
}

/** Opens on the press, not on the click, and with Enter, Space and arrow down, as menus do. */
export function DropdownMenuTrigger({ asChild = false, ...props }: ComponentProps<"button"> & { asChild?: boolean }) {
  const { id, parts, trigger, open, setOpen, byKey, reach } = useMenu();
  const Element = asChild ? Slot.Root : "button";
  const shown = open && parts !== null;

  function press(event: PointerEvent) {
    if (event.button !== 0 || event.ctrlKey) return;
    // The focus goes into the menu.
    if (!shown) event.preventDefault();
    reach();
    byKey.current = false;
    setOpen(!shown);
  }

  function pressKey(event: KeyboardEvent) {
    if (!["Enter", " ", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    reach();
    byKey.current = true;
    setOpen(event.key === "ArrowDown" || !shown);
  }

  return (
    <Element
      type="button"
      {...props}
      ref={trigger}
      id={`${id}trigger`}
      aria-haspopup="menu"
      aria-expanded={shown}
      aria-controls={shown ? `${id}menu` : undefined}
      data-state={shown ? "open" : "closed"}
      onPointerEnter={reach}
      onFocus={reach}
      onPointerDown={press}
      onKeyDown={pressKey}
    />
  );
}

// Above, the site's header and the bar of a plan cover the page.
const roomAround = { top: 116, right: 8, bottom: 8, left: 8 };

interface DropdownMenuContentProps {
  align?: "start" | "end";
  className?: string;
  children: ReactNode;
}

/**
 * Rendered in place, not at the end of the document: there it would lie outside every landmark of the page. Not modal:
 * the rest of the page would be hidden from screen readers with the focusable things in it. It goes without fading: a
 * press on its button meanwhile would be one outside of it, and close what it had just opened.
 */
export function DropdownMenuContent({ align = "start", className, children }: DropdownMenuContentProps) {
  const { id, parts, trigger, open, setOpen, byKey } = useMenu();
  const pressedOutside = useRef(false);
  if (!parts) return null;
  return (
    <parts.Root open={open} onOpenChange={setOpen} modal={false}>
      <parts.Anchor virtualRef={trigger} />
      <parts.Content
        id={`${id}menu`}
        aria-labelledby={`${id}trigger`}
        data-slot="dropdown-menu"
        align={align}
        sideOffset={8}
        collisionPadding={roomAround}
        className={cn(
          "z-50 max-h-(--radix-popper-available-height) min-w-48 max-w-[calc(100vw-1rem)] overflow-y-auto rounded-lg border bg-surface-raised p-1 font-normal text-foreground shadow-raised data-[state=open]:animate-rise-in",
          className,
        )}
        onFocus={({ target, currentTarget }) => {
          // Radix does so after keys that it saw, and did not see the one that had it fetched.
          if (target !== currentTarget || !byKey.current) return;
          byKey.current = false;
          currentTarget
            .querySelector<HTMLElement>('[role="menuitem"]:not([data-disabled])')
            ?.focus({ preventScroll: true });
        }}
        onInteractOutside={() => {
          pressedOutside.current = true;
        }}
        onCloseAutoFocus={(event) => {
          event.preventDefault();
          // Whoever pressed something else wants the focus there.
          if (!pressedOutside.current) trigger.current?.focus();
          pressedOutside.current = false;
        }}
      >
        {children}
      </parts.Content>
    </parts.Root>
  );
}

interface DropdownMenuItemProps extends ComponentProps<MenuParts["Item"]> {
  tone?: "neutral" | "destructive";
}

export function DropdownMenuItem({ className, tone = "neutral", ...props }: DropdownMenuItemProps) {
  const { Item } = useParts();
  return (
    <Item
      className={cn(
        "flex min-h-11 select-none items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-muted md:min-h-9 [&_svg]:size-4 [&_svg]:shrink-0 [&_svg]:text-muted-foreground",
        tone === "destructive" && "text-destructive data-[highlighted]:bg-destructive-soft [&_svg]:text-destructive",
        className,
      )}
      {...props}
    />
  );
}

export function DropdownMenuLabel({ className, ...props }: ComponentProps<MenuParts["Label"]>) {
  const { Label } = useParts();
  return <Label className={cn("px-2.5 py-2 text-sm", className)} {...props} />;
}

export function DropdownMenuSeparator() {
  const { Separator } = useParts();
  return <Separator className="-mx-1 my-1 h-px bg-border" />;
}

/** The three dots that open the actions of one thing. */
export function MoreButton({ label, ...props }: { label: string } & ComponentProps<typeof Button>) {
  return (
    <DropdownMenuTrigger asChild>
      <Button variant="ghost" size="icon" aria-label={label} {...props}>
        <EllipsisIcon aria-hidden />
      </Button>
    </DropdownMenuTrigger>
  );
}
