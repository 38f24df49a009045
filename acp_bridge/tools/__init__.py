"""What a model may do: the tools, how their paths are judged, how commands are run so that none is left behind.

Owns the Tool, Files and Commands ports and the built-in tools. Knows no model and no client's protocol.
"""

from .ask_user import AskUser
from .contained import composed_tools, contained
from .edit_file import EditFile
from .files import ABSENT, Files, FileState, LocalFiles, PictureFile, digest
from .guard import Commands, Ended, GuardedCommands, earlier_commands_ended
from .known_files import KnownFiles
from .list_files import ListFiles
from .mcp import McpOptions, McpServers, ServerSpec
from .paths import accessed, resolved
from .permission import MODES, Choice, Mode, PermissionOption, Permit, Question
from .pipeline import Pipeline, Watcher
from .read_file import ReadFile
from .run_command import RunCommand
from .search_files import SearchFiles
from .titles import title
from .tool import (
    Access,
    Call,
    Examinable,
    Finding,
    Picture,
    Presentation,
    Previewing,
    Tool,
    ToolOutput,
    ToolSpec,
    UserAnswer,
    Workspace,
)
from .understanding import ArgumentText, Understood, read_arguments, understand
from .update_plan import UpdatePlan
from .write_file import WriteFile

__all__ = [
    "ABSENT",
    "MODES",
    "Access",
    "ArgumentText",
    "Call",
    "Choice",
    "Commands",
    "Drawing",
    "Ended",
    "Examinable",
    "FileState",
    "Files",
    "Finding",
    "GuardedCommands",
    "KnownFiles",
    "LocalFiles",
    "McpOptions",
    "McpServers",
    "Mode",
    "PermissionOption",
    "Permit",
    "Picture",
    "PictureFile",
    "Pipeline",
    "Presentation",
    "Previewing",
    "Question",
    "ServerSpec",
    "Tool",
    "ToolOutput",
    "ToolSpec",
    "Understood",
    "UserAnswer",
    "Watcher",
    "Workspace",
    "accessed",
    "builtin_tools",
    "composed_tools",
    "contained",
    "digest",
    "earlier_commands_ended",
    "read_arguments",
    "resolved",
    "title",
    "understand",
]

Drawing = Presentation
"""The former name of `Presentation`; to be removed after 0.2."""


def builtin_tools() -> tuple[Tool, ...]:
    """Return the tools that work on files and run commands, in the order in which models are offered them."""
    return (ReadFile(), WriteFile(), EditFile(), ListFiles(), SearchFiles(), RunCommand(), UpdatePlan(), AskUser())
