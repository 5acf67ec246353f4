# The module in C, which only the package itself uses. The interface for users is in __init__.pyi.
from typing import Any

version: str

class Client:
    @classmethod
    def connect(cls, address: str, **options: Any) -> Any: ...

def __getattr__(name: str) -> Any: ...
