"""Regenerate library/papers/mooring-study.pdf, byte for byte.

Needs reportlab, which `pip install -e '.[dev]'` installs. Pages are not compressed and contain no
date, so that the file depends only on this script and the version of reportlab.

    python examples/make_pdf.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reportlab.graphics.shapes import Circle, Drawing, Line, PolyLine, String
from reportlab.lib.colors import black, grey
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.pagesizes import B5
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    FrameBreak,
    KeepTogether,
    NextPageTemplate,
    PageTemplate,
    Paragraph,
    Table,
    TableStyle,
)

TARGET = Path(__file__).parent / "library" / "papers" / "mooring-study.pdf"
TITLE = "How Hard Do Our Buoys Pull? Line Tension and Chain Wear in Merrow Bay"
AUTHORS = "Maren, Okello and Ruth, Tidepool"
HEADER = "Tidepool technical report 4, June 2026"

WIDTH, HEIGHT = B5
MARGIN = 46
GUTTER = 18
COLUMN = (WIDTH - 2 * MARGIN - GUTTER) / 2
TOP = HEIGHT - 56
BOTTOM = 50
MASTHEAD = 216

BODY = ParagraphStyle(
    "body",
    fontName="Times-Roman",
    fontSize=10.5,
    leading=14.4,
    alignment=TA_JUSTIFY,
    firstLineIndent=10,
    embeddedHyphenation=1,
)
FIRST = ParagraphStyle("first", parent=BODY, firstLineIndent=0)
ABSTRACT = ParagraphStyle("abstract", parent=FIRST, leftIndent=24, rightIndent=24, spaceBefore=3)
HEADING = ParagraphStyle(
    "heading", fontName="Helvetica-Bold", fontSize=11.5, leading=14, spaceBefore=10, spaceAfter=4
)
CAPTION = ParagraphStyle("caption", parent=FIRST, fontSize=8.5, leading=10.5, spaceAfter=8)
MAIN_TITLE = ParagraphStyle(
    "title", fontName="Helvetica-Bold", fontSize=16, leading=19, alignment=TA_CENTER, spaceAfter=5
)
BYLINE = ParagraphStyle(
    "byline", fontName="Times-Italic", fontSize=10, leading=13, alignment=TA_CENTER, spaceAfter=6
)

SUMMARY = """
<b>Abstract.</b> On 27 April 2026 a spring tide pulled tp-11 under because its mooring had been cut
for another depth. We used the repair to measure what we had only guessed until then: how hard a
400 mm float pulls on its ground tackle. Load cells under three buoys recorded line tension for
twenty-six days in May, a logger on the lid recorded how far each buoy swings, and a caliper
recorded what the sea bed takes off the chain. A taut line, not a high wave, produced the largest
pull, 2.9 kN. A rubber snubber of one metre cut the worst jerks to a third. Chain wears fastest
where it touches down on sand and gravel, 1.0 mm a year, and hardly at all in mud.
"""

# A heading, then its paragraphs. "#table" and "#figure" stand for the two floats.
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "1. Why we measured",
        (
            """The rules for ground tackle in our deployment checklist were copied from yacht
            moorings in 2024 and have been corrected by accident ever since. They say how much
            chain and rope belong to a depth. They do not say why, and so nobody could tell,
            when tp-11 went quiet twice a day, whether two missing metres of rope were a blemish
            or a disaster.""",
            """They were a disaster. The rope had been cut for the shallower neighbour. At the top
            of the tide on 27 April the float was held 0.4 m below the surface for almost three
            hours, and every frame in that time was lost. The hull survived. The sinker did not
            stay where it was: the register and the deck GPS disagreed by 31 m when we recovered
            it.""",
            """A buoy that drags its sinker is one storm away from the fairway, which is the only
            thing we call S1. We therefore asked three questions. How large is the tension in
            ordinary weather and in bad weather? How far does a buoy wander from its sinker? And
            how long does chain last on each kind of sea bed?""",
        ),
    ),
    (
        "2. Sites and equipment",
        (
            """Three moorings were chosen because they differ in depth and in ground. tp-04 at
            Heron Point lies over sand and gravel, tp-10 at Kelp Cut over rock with pockets of
            shell, and tp-11 at Outer Bank over fine mud. Table 1 lists them. Depths are for the
            highest spring tide, which is 4.6 m above the lowest.""",
            "#table",
            """Each mooring received a stainless load cell of 5 kN between the swivel and the
            bridle. The cell is read ten times a second by a small recorder of its own in a
            pressure tube, with its own battery, so that nothing was changed in the buoy. To
            keep stainless steel away from galvanised shackles, the cell hangs in two nylon
            bushes. We weighed the assembly in water and added foam until it was neutral.""",
            """A satellite positioning logger sat on the lid and stored a fix every thirty seconds.
            Its scatter, found by leaving it on the pontoon for two days, was 1.3 m. Wind came
            from the mast at Skerry Light, waves from the pressure recorder of the harbour
            master. All clocks were set on deck and compared again on recovery; the worst had
            lost four seconds in twenty-six days.""",
        ),
    ),
    (
        "3. How the records were treated",
        (
            """Ten readings a second for twenty-six days are 22 million numbers for each mooring.
            We cut the record into pieces of ten minutes and kept four figures for each: the
            mean, the standard deviation, the largest reading, and the slack, which follows from
            the position and the height of the tide. A piece was dropped if the recorder had
            skipped more than fifty readings. That happened in 0.7 percent of the pieces, all of
            them at Kelp Cut, where a connector was loose.""",
            """We call a reading a jerk when it exceeds the mean of its piece by more than 400 N
            and falls back within half a second. The limit is arbitrary. We tried 300 and 500 N
            as well; the count changes by a factor of four but the order of the sites does not.""",
            """The load cells were checked against known weights before and after. The one from
            Outer Bank had crept by 14 N, which we have spread evenly over the time. The other
            two agreed to better than 5 N.""",
        ),
    ),
    (
        "4. Results",
        (
            """<b>Tension.</b> In calm weather the mean was between 90 and 160 N, close to the
            weight of the chain that hangs free plus the drag of the current. Waves alone added
            little. During the gale of 17 May, with waves of 2.4 m at the harbour entrance, the
            largest reading at Heron Point was 1.1 kN and at Kelp Cut 1.4 kN.""",
            """The record was set in much smaller waves. On 24 May, at the top of a spring tide and
            with barely half a metre of sea, tp-10 pulled with 2.9 kN. Its line was straight at
            that moment: the height of the water and a current of 0.8 m/s had carried the float
            16 m from its sinker, and every passing wave had to move the iron or stretch the
            rope. Figure 1 shows the same thing for all pieces: the peak stays near 500 N until
            less than a metre of slack is left, and then climbs steeply.""",
            "#figure",
            """<b>Snubber.</b> From 19 May on tp-11 carried a rubber snubber, one metre of the cord
            that holds small craft in the harbour, between rope and chain. Before, there had
            been 212 jerks in fifteen days; afterwards there were 46 in eleven days with similar
            weather, and the largest fell from 1.9 kN to 0.6 kN. It costs 34 EUR. We do not know
            yet how it ages.""",
            """<b>Watch circle.</b> Ninety-five percent of all fixes lay within 13 m of the sinker
            at Heron Point, 12 m at Kelp Cut and 19 m at Outer Bank. The shape is not a circle
            but a bow tie along the axis of the stream, with a crossing at slack water. No buoy
            turned more than eleven times in the same sense, so one swivel is enough.""",
            """<b>Wear.</b> Chain of tp-04 had 7.6 mm left in October, and the mean of three links
            was 7.1 mm on 21 April. With the reading of 30 May, 7.0 mm, that makes 1.0 mm a year
            at the touch-down point. On rock it was 0.7 mm, in mud less than the caliper can
            tell. Links above the bottom lost nothing anywhere. What eats the chain is sand that
            is dragged through the joint between two links, not rust.""",
        ),
    ),
    (
        "5. A rule of thumb for the pull",
        (
            """A full model of a mooring line needs the weight of every piece and the profile of
            the current. For a float as small as ours a sum on the back of the tide table comes
            close enough. The drag of the float is half the density of sea water times the drag
            coefficient, the wetted area and the square of the speed. With a coefficient of 0.9,
            an area of 0.07 square metres and 0.8 m/s this gives 21 N; the copper cage and a
            skirt of weed add as much again.""",
            """So the stream alone pulls with about 40 N, and we measured 50. Weed matters more
            than shape. After we had cleaned tp-10 on 12 May, the mean tension at full stream
            fell by 18 percent from one tide to the next, and it took two weeks to come back. A
            clean buoy is a lightly loaded one.""",
            """Waves are another matter. While the line is slack, the float rides over them and the
            tension follows the weight of chain that is lifted, some 14 N for each metre. Once
            the line is straight, the only spring in the system is the rope. Twelve metres of
            polyester stretch by about 40 mm for each kilonewton, which is next to nothing
            beside a wave of half a metre. Hence the jerks, and hence the rubber: the snubber
            stretches by 900 mm before it reaches its own limit.""",
        ),
    ),
    (
        "6. What follows from it",
        (
            """The sum to make is the slack: the length of chain and rope together, less the
            straight distance from the sinker to the float. Our checklist thinks of the depth
            alone, but the stream counts as well. We want at least two metres of slack in the
            strongest current of the highest spring tide, because below one metre the peaks
            start to climb. This asks for a little more than our old table: at depths between 5
            and 12 m the rope should be 1.6 times the depth and not 1.5.""",
            """The sinkers are heavy enough if the line never becomes taut, and not heavy enough if
            it does. A cast block of 60 kg weighs 590 N on deck but only 505 N under water, and
            it slides on mud at about 250 N of sideways pull. More iron is the wrong answer,
            because the boat's davit lifts 80 kg and no more. Length and a snubber are the right
            one.""",
            """Chain should be turned end for end after a year, which puts a fresh piece on the
            ground and doubles its life. At Heron Point a chain that starts with 8 mm reaches
            the limit of 6.4 mm after nineteen months; turned in time it will last three years.
            In mud we shall stop measuring twice a year and do it when the battery is changed.""",
        ),
    ),
    (
        "7. Limits of this work",
        (
            """Twenty-six days in May are not a winter. We have one gale in the record, from the
            south-west, and Outer Bank is open to the north. The snubber was tried at one site
            and in the second half only, so that weather and rubber cannot be told apart with
            certainty. The wear rates rest on one chain for each kind of ground. And the load
            cell itself, although neutral in water, adds half a metre to the line, which
            flatters every number here by a little.""",
            """We shall repeat the measurement from November to January at Outer Bank with two load
            cells, one above and one below the snubber.""",
        ),
    ),
    (
        "8. Recommendations",
        (
            """(a) Rope of 1.6 times the depth between 5 and 12 m; 1.3 times the depth beyond that
            stays. (b) A snubber of one metre on every mooring with rope, starting with Kelp
            Cut. (c) Turn the chain end for end after twelve months on sand or gravel. (d) Write
            the slack at the highest spring tide, in metres, on the deployment sheet; below two
            metres the buoy does not leave the pontoon.""",
        ),
    ),
    (
        "Appendix: fitting a snubber",
        (
            """Work on the pontoon, not on deck. Lay rope, snubber and chain out in a straight
            line. Each end of the rubber gets a nylon thimble and a 10 mm bow shackle, with the
            pin moused by two turns of monel wire. A safety line of 8 mm polyester, 2.2 m long,
            runs beside the rubber and stays loose in ordinary service; it takes the load if the
            rubber parts, so that a broken snubber costs a visit and not a buoy.""",
            """Mark the rubber with two rings of white paint, 500 mm apart. On every visit measure
            between the rings. When they are more than 550 mm apart with no load, or when a
            crack is deeper than a fingernail, the snubber is finished. Write the date on the
            thimble, since nothing else on it will tell its age.""",
        ),
    ),
    (
        "Acknowledgements",
        (
            """The harbour master lent us his wave record and did not ask what for. Ines built the
            recorders out of three revision B boards that we had promised to throw away. Tomasz
            checked the arithmetic and found the missing factor of two.""",
        ),
    ),
)

MOORINGS = (
    ("", "tp-04", "tp-10", "tp-11"),
    ("Site", "Heron Point", "Kelp Cut", "Outer Bank"),
    ("Ground", "sand, gravel", "rock, shell", "mud"),
    ("Depth", "9.5 m", "8.0 m", "15.6 m"),
    ("Chain", "6 m", "6 m", "8 m"),
    ("Rope", "14.5 m", "12 m", "21 m"),
    ("Sinker", "60 kg", "60 kg", "68 kg"),
)

# Slack in metres, largest reading in newtons.
PEAKS = (
    (0.1, 2900),
    (0.3, 2300),
    (0.5, 1650),
    (0.8, 980),
    (1.1, 610),
    (1.6, 540),
    (2.2, 500),
    (3.0, 510),
    (3.9, 470),
)


def moorings() -> KeepTogether:
    style = [
        ("FONT", (0, 0), (-1, -1), "Times-Roman", 8.2),
        ("FONT", (0, 0), (-1, 0), "Times-Bold", 8.2),
        ("LINEABOVE", (0, 0), (-1, 0), 0.7, black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.4, black),
        ("LINEBELOW", (0, -1), (-1, -1), 0.7, black),
        ("TOPPADDING", (0, 0), (-1, -1), 1),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
        ("LEFTPADDING", (0, 0), (-1, -1), 2),
        ("RIGHTPADDING", (0, 0), (-1, -1), 2),
    ]
    share = (0.19, 0.28, 0.26, 0.27)
    table = Table(MOORINGS, [COLUMN * part for part in share], style=TableStyle(style))
    table.spaceBefore = 6
    table.spaceAfter = 4
    caption = "Table 1. The three moorings, with the depth at the highest spring tide."
    return KeepTogether([table, Paragraph(caption, CAPTION)])


def peaks() -> KeepTogether:
    left, bottom, width, height = 26, 22, COLUMN - 36, 92
    drawing = Drawing(COLUMN, bottom + height + 8)
    drawing.add(Line(left, bottom, left + width, bottom))
    drawing.add(Line(left, bottom, left, bottom + height))

    def put(text: str, x: float, y: float, anchor: str = "middle") -> None:
        drawing.add(String(x, y, text, fontName="Helvetica", fontSize=7, textAnchor=anchor))

    def at(slack: float, peak: float) -> tuple[float, float]:
        return left + width * slack / 4, bottom + height * peak / 3000

    for slack in range(5):
        put(str(slack), at(slack, 0)[0], bottom - 9)
    for kilo in range(4):
        put(str(kilo), left - 4, at(0, kilo * 1000)[1] - 2, "end")
    put("slack in the line (m)", left + width / 2, bottom - 19)
    put("peak (kN)", left + 4, bottom + height + 1, "start")
    dots = [at(*pair) for pair in PEAKS]
    drawing.add(PolyLine([part for dot in dots for part in dot], strokeColor=grey, strokeWidth=0.6))
    for x, y in dots:
        drawing.add(Circle(x, y, 1.8, fillColor=black))
    caption = "Figure 1. Largest tension against the slack that is left in the line, all sites."
    return KeepTogether([drawing, Paragraph(caption, CAPTION)])


def story() -> list[Any]:
    parts: list[Any] = [
        Paragraph(TITLE, MAIN_TITLE),
        Paragraph(AUTHORS, BYLINE),
        Paragraph(SUMMARY, ABSTRACT),
        FrameBreak(),
        NextPageTemplate("later"),
    ]
    for heading, paragraphs in SECTIONS:
        first = True
        for text in paragraphs:
            if text == "#table":
                parts.append(moorings())
            elif text == "#figure":
                parts.append(peaks())
            elif first:
                parts.append(KeepTogether([Paragraph(heading, HEADING), Paragraph(text, FIRST)]))
                first = False
            else:
                parts.append(Paragraph(text, BODY))
    return parts


def decorate(canvas: Any, document: BaseDocTemplate) -> None:
    canvas.saveState()
    canvas.setFont("Times-Italic", 8.5)
    canvas.drawString(MARGIN, HEIGHT - 38, HEADER)
    canvas.drawRightString(WIDTH - MARGIN, HEIGHT - 38, "Mooring study")
    canvas.line(MARGIN, HEIGHT - 43, WIDTH - MARGIN, HEIGHT - 43)
    canvas.setFont("Times-Roman", 9)
    canvas.drawCentredString(WIDTH / 2, 30, str(document.page))
    canvas.restoreState()


def columns(top: float) -> list[Frame]:
    pads = {"leftPadding": 0, "rightPadding": 0, "topPadding": 0, "bottomPadding": 0}
    return [
        Frame(left, BOTTOM, COLUMN, top - BOTTOM, **pads)
        for left in (MARGIN, MARGIN + COLUMN + GUTTER)
    ]


def make(target: Path) -> None:
    document = BaseDocTemplate(
        str(target),
        pagesize=B5,
        invariant=1,
        pageCompression=0,
        title=TITLE,
        author=AUTHORS,
        subject="Mooring loads, watch circles and chain wear",
        lang="en",
    )
    masthead = Frame(MARGIN, TOP - MASTHEAD, WIDTH - 2 * MARGIN, MASTHEAD, topPadding=4)
    document.addPageTemplates(
        [
            PageTemplate("first", [masthead, *columns(TOP - MASTHEAD)], onPage=decorate),
            PageTemplate("later", columns(TOP), onPage=decorate),
        ]
    )
    document.build(story())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
