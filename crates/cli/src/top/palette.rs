//! Colours of the terminal's own, which are readable on dark and on light.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// The styles of what stands out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) strong: Style,
    pub(super) alarm: Style,
    pub(super) waiting: Style,
    pub(super) selected: Style,
}

impl Palette {
    /// Without colours where `NO_COLOR` is set.
    pub(super) fn of_environment() -> Self {
        Self::new(env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn new(has_colors: bool) -> Self {
        let colored = |style: Style, color| if has_colors { style.fg(color) } else { style };
        let strong = Style::new().add_modifier(Modifier::BOLD);
        Self {
            strong,
            alarm: colored(strong, Color::Red),
            waiting: colored(Style::new(), Color::Magenta),
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}
