"""Detection in all images of a batch at once, for export.

torchvision's detectors loop over the images, and a trace would keep the number of rounds.
The same steps as tensor operations on the whole batch find the same boxes.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import detection
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import concat_box_prediction_layers
from torchvision.ops import clip_boxes_to_image, nms, roi_align

from .detectors import DETECTIONS, Detector, pad_to_32


def batched(model: nn.Module) -> nn.Module:
    """Returns the model that is traced: any other than a `Detector` is traced as it is."""
    return BatchedDetector(model) if isinstance(model, Detector) else model


class BatchedDetector(nn.Module):
    """Returns the detections of a detector, for any number of images.

    The detector must have returned detections before: it measures its maps by then.
    """

    def __init__(self, model: Detector) -> None:
        super().__init__()
        self.detector: Any = model.detector

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns detections of shape (N, DETECTIONS, 6), as `Detector.forward`."""
        *_, height, width = inputs.shape
        inputs = pad_to_32(inputs)
        maps = self.detector.backbone(inputs)
        images = ImageList(inputs, [(height, width)])  # All have the same anchors.
        if isinstance(self.detector, detection.FasterRCNN):
            limits: Any = self.detector.roi_heads
            boxes, scores, classes = two_stages(self.detector, maps, images)
        else:
            limits = self.detector
            boxes, scores, classes = one_stage(self.detector, maps, images)
        valid = scores > limits.score_thresh
        scores, places = suppress(
            boxes, scores, classes, valid, limits.nms_thresh, DETECTIONS
        )
        columns = torch.stack([scores, at(classes, places).to(scores)], dim=2)
        padding = torch.tensor([0.0] * 5 + [-1], device=inputs.device)
        table = torch.cat([at(boxes, places), columns], dim=2)
        return table.where(scores.unsqueeze(2) > 0, padding)


def one_stage(
    detector: Any, maps: dict[str, Tensor], images: ImageList
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the boxes (N, K, 4), scores and classes of FCOS, RetinaNet or SSD."""
    levels = list(maps.values())
    outputs = detector.head(levels)
    [anchors] = detector.anchor_generator(images, levels)
    codes, logits = outputs["bbox_regression"], outputs["cls_logits"]
    if isinstance(detector, detection.FCOS):
        boxes = detector.box_coder.decode(codes, anchors)
        scores = (logits.sigmoid() * outputs["bbox_ctrness"].sigmoid()).sqrt()
    else:
        boxes = decode(detector.box_coder, codes, anchors)
        scores = logits.sigmoid()
    most = detector.topk_candidates
    if isinstance(detector, detection.ssd.SSD):
        scores = logits.softmax(dim=2)[..., 1:]  # Without the background.
        count, outputs = scores.shape[1:]
        # The best of each class.
        places = best(scores.mT.flatten(1), [count] * outputs, most)
        anchor, classes = places % count, places // count
    else:
        count, outputs = scores.shape[1:]
        areas = [math.prod(level.shape[2:]) for level in levels]
        per_area = count // sum(areas) * outputs
        # The best of each level, over all classes.
        places = best(scores.flatten(1), [area * per_area for area in areas], most)
        anchor, classes = places // outputs, places % outputs
    scores = at(scores.flatten(1), anchor * outputs + classes)
    boxes = clip_boxes_to_image(boxes, images.image_sizes[0])
    return at(boxes, anchor), scores, classes


def two_stages(
    detector: Any, maps: dict[str, Tensor], images: ImageList
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the boxes (N, K, 4), scores and classes of Faster R-CNN."""
    proposals, valid = propose(detector.rpn, maps, images)
    number = torch.arange(valid.shape[0]).view(-1, 1, 1).expand(*valid.shape, 1)
    rois = torch.cat([number.to(proposals), proposals], dim=2).flatten(0, 1)
    heads = detector.roi_heads
    features = heads.box_head(pool(heads.box_roi_pool, maps, rois))
    logits, codes = heads.box_predictor(features)
    boxes = heads.box_coder.decode_single(codes, rois[:, 1:])
    boxes = boxes.view(*valid.shape, -1, 4)[:, :, 1:]  # Without the background.
    boxes = clip_boxes_to_image(boxes, images.image_sizes[0])
    scores = logits.softmax(dim=1).view(*valid.shape, -1)[:, :, 1:]
    valid = valid.unsqueeze(2) & (boxes[..., 2:] - boxes[..., :2] >= 0.01).all(dim=3)
    classes = torch.arange(scores.shape[2]).expand_as(scores)
    scores = scores * valid
    return boxes.flatten(1, 2), scores.flatten(1), classes.flatten(1)


def propose(
    rpn: Any, maps: dict[str, Tensor], images: ImageList
) -> tuple[Tensor, Tensor]:
    """Returns proposals (N, P, 4), and which of them (N, P) are more than padding."""
    levels = list(maps.values())
    logits, codes = rpn.head(levels)
    [anchors] = rpn.anchor_generator(images, levels)
    counts = [math.prod(level.shape[1:]) for level in logits]
    scores, codes = concat_box_prediction_layers(logits, codes)
    scores = scores.view(-1, len(anchors))
    boxes = decode(rpn.box_coder, codes.view(-1, len(anchors), 4), anchors)
    most = rpn.pre_nms_top_n()
    places = best(scores, counts, most)
    level = torch.cat(
        [torch.full((min(most, count),), n) for n, count in enumerate(counts)]
    )
    scores = at(scores, places).sigmoid()
    boxes = clip_boxes_to_image(at(boxes, places), images.image_sizes[0])
    valid = (boxes[..., 2:] - boxes[..., :2] >= rpn.min_size).all(dim=2)
    valid &= scores >= rpn.score_thresh
    scores, places = suppress(
        boxes,
        scores,
        level.expand_as(places),
        valid,
        rpn.nms_thresh,
        rpn.post_nms_top_n(),
    )
    return at(boxes, places), scores > 0


def pool(pooling: Any, maps: dict[str, Tensor], rois: Tensor) -> Tensor:
    """Returns the features of each RoI, from the map for its size.

    Args:
        rois: number of the image, x1, y1, x2 and y2, of shape (N * P, 5).
    """
    levels = [maps[name] for name in maps if name in pooling.featmap_names]
    level_of = pooling.map_levels([rois[:, 1:]])
    size = pooling.output_size
    features = rois.new_zeros(rois.shape[0], levels[0].shape[1], *size)
    for number, (level, scale) in enumerate(zip(levels, pooling.scales)):
        [rows] = torch.where(level_of == number)
        pooled = roi_align(level, rois[rows], size, scale, pooling.sampling_ratio)
        features = features.index_put((rows,), pooled)
    return features


def suppress(
    boxes: Tensor,
    scores: Tensor,
    groups: Tensor,
    valid: Tensor,
    overlap: float,
    most: int,
) -> tuple[Tensor, Tensor]:
    """Suppresses boxes that overlap with better ones of their image and group.

    Args:
        boxes: shape (N, K, 4). All others have the shape (N, K).

    Returns:
        The scores of the best boxes and their places in K, of shape (N, most). Padding
        has a score of 0.
    """
    number, count = scores.shape
    image, place = valid.nonzero().unbind(1)
    # Groups move to the right and images downwards, so that only boxes of one overlap.
    moved = torch.stack([groups[image, place], image], dim=1) * (boxes.max() + 1)
    # With fewer than two boxes a traced `nms` fails. Two more get a column of their own.
    more = boxes.new_tensor([[-2.0, -2, -1, -1], [-4, -4, -3, -3]])
    found = torch.cat([boxes[image, place] + moved.repeat(1, 2), more])
    found_scores = torch.cat([scores[image, place], more.new_zeros(2)])
    image = torch.cat([image, image.new_zeros(2)])
    place = torch.cat([place, place.new_full((2,), count)])
    kept = nms(found, found_scores, overlap)
    left = scores.new_zeros(number, max(count + 1, most))
    left = left.index_put((image[kept], place[kept]), found_scores[kept])
    scores, places = left.topk(most)
    return scores, places.clamp(max=count - 1)


def best(scores: Tensor, counts: list[int], most: int) -> Tensor:
    """Returns the places of the best scores of each image, up to `most` of each part.

    Args:
        scores: shape (N, K).
        counts: scores of each part, with the sum K.
    """
    places, first = [], 0
    for count, part in zip(counts, scores.split(counts, dim=1)):
        places.append(part.topk(min(most, count)).indices + first)
        first += count
    return torch.cat(places, dim=1)


def decode(coder: Any, codes: Tensor, anchors: Tensor) -> Tensor:
    """Decodes the boxes of all images, of shape (N, anchors, 4)."""
    anchors = anchors.expand_as(codes).reshape(-1, 4)
    return coder.decode_single(codes.reshape(-1, 4), anchors).view(codes.shape)


def at(values: Tensor, places: Tensor) -> Tensor:
    """Returns the values (N, K) or (N, K, 4) at the places (N, P) of each image."""
    if values.ndim == 3:
        places = places.unsqueeze(2).expand(-1, -1, values.shape[2])
    return values.gather(1, places)
