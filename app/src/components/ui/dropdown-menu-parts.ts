// The menu without its trigger: `radix-ui` has it only together with one, which would have to come at once.
import { Menu } from "radix-ui/internal";

/** What a menu is made of, fetched when one is reached for. */
export const menuParts = {
  Root: Menu.Root,
  Anchor: Menu.Anchor,
  Content: Menu.Content,
  Item: Menu.Item,
  Label: Menu.Label,
  Separator: Menu.Separator,
};
export type MenuParts = typeof menuParts;
