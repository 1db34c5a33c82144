"""The rated speeds of the links of GPU models: what bytes per second are compared with.

NVLink and PCIe of NVIDIA's data sheets, per direction, which is half of what they print. PCIe counts the bits of its
line code: 16 lanes of 16 (generation 4) or 32 GT/s (generation 5) times 128 / 130. Models whose host link is another
one (GH200, GB200), and those that are not here, have no rated speed, and nothing is concluded from their bytes.
"""

from __future__ import annotations

from typing import Final

from ofu_exporter.values.gpu import LinkPeaks

_PCIE_4, _PCIE_5 = (16 * rate * 1e9 * 128 / 130 / 8 for rate in (16, 32))
_A100, _H100, _B200 = (
    LinkPeaks(_PCIE_4, 300e9),
    LinkPeaks(_PCIE_5, 450e9),
    LinkPeaks(_PCIE_5, 900e9),
)
_BRIDGED = LinkPeaks(_PCIE_5, 300e9)
_PCIE_4_ONLY = LinkPeaks(_PCIE_4, 0.0)

LINKS: Final[dict[str, LinkPeaks]] = {
    **dict.fromkeys(
        ("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-40GB", "A100-PCIe-80GB"), _A100
    ),
    **dict.fromkeys(
        ("A800-SXM4-40GB", "A800-SXM4-80GB", "A800-PCIe-80GB"), _A100._replace(nvlink=200e9)
    ),
    **dict.fromkeys(
        ("H100-SXM5-80GB", "H100-SXM5-96GB", "H200-SXM", "H200-as-L20X", "H200-NVL", "H20"), _H100
    ),
    **dict.fromkeys(("H100-PCIe-80GB", "H100-NVL"), _BRIDGED),
    "H800-SXM": _H100._replace(nvlink=200e9),
    **dict.fromkeys(("B200", "B300"), _B200),
    **dict.fromkeys(("A10", "A10G", "L4", "L40", "L40S"), _PCIE_4_ONLY),
}
"""By the keys of the GPU table."""
