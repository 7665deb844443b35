"""ResNet, MobileNetV2 and a U-Net for images (batch, channels, height, width)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(channels, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def shortcut(channels: int, out: int, stride: int) -> nn.Module | None:
    """A projection where the block changes the shape, else None."""
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    """Residual network (He et al., 2015) of ``counts`` blocks per stage."""

    def __init__(self, block: type, counts: tuple[int, ...], classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = width
        stages = []
        for i, count in enumerate(counts):
            blocks = []
            for j in range(count):
                blocks.append(block(channels, width * 2**i, 2 if i and not j else 1))
                channels = width * 2**i * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layers = nn.Sequential(*stages)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(classes: int = 1000, width: int = 64) -> ResNet:
    """ResNet-18."""
    return randomised(ResNet(BasicBlock, (2, 2, 2, 2), classes, width))


def resnet50(classes: int = 1000, width: int = 64) -> ResNet:
    """ResNet-50."""
    return randomised(ResNet(Bottleneck, (3, 4, 6, 3), classes, width))


class InvertedResidual(nn.Module):
    """Expand, depthwise 3x3, project; a shortcut where the shape stays."""

    def __init__(self, channels: int, out: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = channels * expand
        layers = [] if expand == 1 else conv_bn(channels, inner, 1)
        layers += conv_bn(inner, inner, 3, stride, groups=inner)
        layers += [nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


def conv_bn(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Convolution, batch normalisation, ReLU6."""
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU6(inplace=True)]


class MobileNetV2(nn.Module):
    """MobileNetV2 (Sandler et al., 2018)."""

    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    """Expansion, channels, blocks and stride of each stage."""

    def __init__(self, classes: int = 1000, factor: float = 1.0) -> None:
        super().__init__()
        channels = int(32 * factor)
        layers = conv_bn(3, channels, 3, 2)
        for expand, out, count, stride in self.stages:
            for i in range(count):
                layers.append(InvertedResidual(channels, int(out * factor), stride if i == 0 else 1, expand))
                channels = int(out * factor)
        last = int(1280 * max(factor, 1.0))
        self.features = nn.Sequential(*layers, *conv_bn(channels, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def mobilenet_v2(classes: int = 1000, factor: float = 1.0) -> MobileNetV2:
    """MobileNetV2."""
    return randomised(MobileNetV2(classes, factor))


class UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015) with padded convolutions: an image in, a mask of the same size out."""

    def __init__(self, classes: int = 2, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList([self.double(c, w) for c, w in zip([3, *widths], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1][::-1]])
        self.join = nn.ModuleList([self.double(2 * w, w) for w in widths[:-1][::-1]])
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

    @staticmethod
    def double(channels: int, out: int) -> nn.Sequential:
        """Two 3x3 convolutions with normalisation."""
        layers: list[nn.Module] = []
        for i in range(2):
            layers += [nn.Conv2d(out if i else channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def unet(classes: int = 2, width: int = 16, depth: int = 3) -> UNet:
    """A U-Net."""
    return randomised(UNet(classes, width, depth))


def randomised(model: nn.Module) -> nn.Module:
    """The model in evaluation mode, its running statistics as if it had been trained a little."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval()
