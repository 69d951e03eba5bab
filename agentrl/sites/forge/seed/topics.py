"""The projects of the forge, and what issues in each of them are about."""

from collections.abc import Sequence
from typing import NamedTuple


class Topic(NamedTuple):
  """A project: its owner, path, language, description and parts."""

  space: str  # a group's path, 'emma', or '' for one of the others
  path: str
  language: str
  topics: str
  description: str
  parts: Sequence[str]


def _read(table: str) -> Sequence[Topic]:
  found = []
  for line in table.strip().splitlines():
    space, path, language, topics, description, parts = (
        x.strip() for x in line.split('|')
    )
    found.append(
        Topic(
            space,
            path,
            language,
            topics,
            description,
            tuple(parts.split(', ')),
        )
    )
  return tuple(found)


# Group's path, name, description.
GROUPS = (
    ('harbor-labs', 'Harbor Labs', 'Design system and tools for port software'),
    ('open-meadow', 'Open Meadow', 'Accessible web pages, made together'),
    ('pixelkiln', 'Pixel Kiln', 'Tools for drawing with few pixels'),
    ('northlight', 'Northlight', 'Charts and dashboards for small teams'),
    ('quietforge', 'Quiet Forge', 'Plain services that run for years'),
    ('tundra-ui', 'Tundra UI', 'Components for slow connections'),
    ('railyard', 'Railyard', 'Open data of trains and trams'),
    ('lumenstack', 'Lumen Stack', 'Building blocks of a mail provider'),
    ('seabird', 'Seabird Research', 'Machine learning on coastal recordings'),
    ('mapleworks', 'Maple Works', 'Compiler and editor support for Maple'),
)
TOPICS = _read("""
emma|tide-tables|python|science, boats|Tide predictions for small harbours|harbour list, tide curve, station cache, moon table, calendar export
emma|dotfiles|shell|linux, config|Shell, editor and terminal configuration|prompt, editor config, install script, tmux layout, aliases
emma|meadow-theme|css|theme, editor|A soft light theme for code editors|comment color, diff colors, status bar, terminal palette, selection
emma|space-sketches|html|website, art|Drawings of planets, one page each|gallery, planet page, zoom view, footer, image loader
emma|recipe-scaler|javascript|cooking, web|Scales recipes to the pans that you own|unit parser, pan picker, shopping list, print view, recipe import
emma|paper-trail|python|finance|Sorts scanned receipts by month|scanner, month folders, total line, receipt parser, tax report
emma|bus-stop-clock|rust|transport, hardware|Departures on a small display|display driver, departure list, clock face, wifi setup, sleep mode
emma|garden-planner|html|website, garden|Plan beds, sow dates and harvests|bed editor, sow calendar, harvest list, seed box, header
emma|knit-charts|javascript|craft, web|Draws knitting charts from written patterns|chart grid, pattern parser, row counter, symbol legend, zoom
emma|field-notes|html|website, writing|Notes from walks, with sketches|note list, sketch page, map strip, tag cloud, feed
emma|budget-jar|python|finance|Monthly budget in plain text files|jar file, month summary, category rules, bank import, chart
emma|opening-quiz|javascript|chess, web|Asks for the next move of chess openings|board, move list, hint button, score card, opening book
emma|trail-maps|html|website, maps|Printable maps of marked trails|map sheet, legend, trail index, print margin, elevation strip
emma|reading-log|html|website, books|What I have read, with short reviews|book card, year page, rating stars, review form, sidebar
harbor-labs|harbor-design|css|design, components|Components and guidelines of Harbor's interfaces|button, dialog, color scale, spacing table, icon slot, octo banner
harbor-labs|harbor-icons|javascript|design, icons|Two hundred icons of ships and cranes|icon build, sprite sheet, crane icon, preview page, name index
harbor-labs|harbor-cli|go|tools, terminal|Command line for berth bookings|login command, berth table, config file, shell completion, progress output
open-meadow|a11y-checklist|html|accessibility, website|A checklist for accessible pages|checklist page, search form, keyboard section, print style, translation
open-meadow|contrast-checker|javascript|accessibility, web|Measures contrast of colors on a page|color picker, ratio display, page scan, report export, palette import
open-meadow|alt-text-guide|html|accessibility, writing|How to describe pictures in few words|example list, quiz page, chapter menu, glossary, contact form
pixelkiln|pixel-editor|rust|graphics, desktop|Editor for sprites and tiles|canvas, layer list, undo stack, color palette, animation timeline
pixelkiln|palette-tools|python|graphics, tools|Converts and sorts palettes|palette reader, sort order, preview strip, format converter, histogram
pixelkiln|tile-server|go|graphics, server|Serves map tiles from one file|tile cache, zoom levels, metrics page, archive reader, etag header
northlight|northlight-core|python|charts, server|Queries behind the dashboards|query planner, data source, permission check, cron runner, alert rule
northlight|northlight-docs|html|charts, documentation|Handbook of Northlight|install chapter, search index, version menu, code sample, dark style
northlight|aurora-charts|javascript|charts, web|Line and bar charts in the browser|axis, tooltip, legend, bar layout, resize handler
quietforge|log-sieve|rust|server, tools|Filters logs by rules while they stream|rule parser, stream reader, json output, color mode, benchmark
quietforge|retry-queue|go|server, library|A queue that tries again, later each time|backoff, dead letter list, worker pool, metrics, storage layer
quietforge|cron-garden|python|server, tools|Schedules jobs and shows when they bloom|schedule parser, job table, mail report, time zone list, lock file
tundra-ui|tundra-forms|javascript|components, web|Forms that work before scripts load|validation, date field, error summary, file upload, label
tundra-ui|tundra-tables|javascript|components, web|Tables for very many rows|sort button, column menu, row selection, sticky header, pager
tundra-ui|tundra-web|html|components, website|Home page of Tundra UI|landing page, demo frame, navigation, changelog page, newsletter form
railyard|timetable-api|go|transport, server|Timetables over HTTP|route search, stop lookup, calendar parser, response cache, api key check
railyard|delay-predictor|python|transport, machine-learning|Predicts delays of trains from weather|feature builder, training script, weather join, model card, evaluation table
railyard|platform-board|javascript|transport, web|A departure board for stations|split flap effect, platform column, font loader, refresh timer, fallback page
lumenstack|lumen-auth|go|mail, security|Accounts, sessions and second factors|session store, login form, recovery codes, token check, audit log
lumenstack|lumen-mail|rust|mail, server|Receives mail and sorts it|address parser, spam score, mailbox lock, attachment store, bounce handler
lumenstack|lumen-gateway|go|mail, server|Routes requests to the mail services|rate limiter, header rewrite, health check, route table, tls reload
seabird|wave-gan|python|machine-learning, audio|A generative adversarial network for wave sounds|generator, discriminator, training loop, spectrogram, checkpoint loader
seabird|shore-speech|python|machine-learning, audio|Recognises speech in wind and surf|acoustic model, noise filter, decoder, word list, evaluation script
seabird|label-loom|javascript|machine-learning, web|Label recordings in the browser|waveform view, label track, shortcut map, export dialog, audio player
mapleworks|maple-lint|rust|compiler, tools|Finds mistakes in Maple programs|unused import rule, config loader, error format, fix mode, rule index
mapleworks|maple-format|rust|compiler, tools|Formats Maple programs|line breaker, comment attachment, diff mode, string escapes, range option
mapleworks|maple-lsp|go|compiler, editor|Language server for Maple|completion, hover text, rename, symbol index, crash reporter
|pocket-weather|javascript|weather, web|The weather of the next six hours|hour strip, city search, wind arrow, offline page, widget
|terminal-blocks|rust|game, terminal|Falling blocks for the terminal|key handling, score line, block queue, color scheme, pause screen
|markdown-slides|javascript|writing, tools|Slides from one Markdown file|slide splitter, speaker notes, pdf export, theme loader, code highlight
|diff-lens|python|tools, terminal|Shows differences of words, not lines|word splitter, side view, pager, color config, large file mode
|csv-wizard|python|data, tools|Repairs tables with strange separators|separator guess, header row, encoding check, preview, date columns
|photo-sorter|go|photo, tools|Sorts photos by day and place|exif reader, folder names, duplicate check, place lookup, dry run
|subtitle-tools|python|video, tools|Shifts, joins and checks subtitles|time shift, line length check, encoding guess, joiner, batch mode
|wifi-map|rust|network, hardware|Draws where the signal is weak|heat map, channel list, floor plan import, survey mode, export
|habit-grid|javascript|web, productivity|A grid of days for your habits|day cell, streak count, reminder, backup, color legend
|font-preview|javascript|design, web|Compare fonts with your own text|font list, text box, size slider, favourites, share link
|typing-trainer|python|education, terminal|Learn to type without looking|lesson list, speed graph, key map, error marks, word source
|robot-arm-sim|python|robotics, simulation|Simulates an arm with six joints|joint limits, path planner, gripper, camera view, collision check
|midi-looper|rust|music, hardware|Records loops from a keyboard|loop buffer, metronome, midi input, quantizer, foot switch
|plant-waterer|python|hardware, garden|Waters plants when the soil is dry|pump driver, soil sensor, schedule, log chart, low water alarm
|epaper-frame|python|hardware, photo|A picture frame of electronic paper|dithering, image queue, refresh time, battery meter, web upload
|json-explorer|javascript|data, web|Fold, search and copy from large JSON|tree view, path copy, search bar, lazy loading, schema hint
|sql-sandbox|go|data, education|Try queries on sample data|query editor, result grid, sample loader, share link, timeout
|graph-notes|rust|writing, desktop|Notes that link to each other|link parser, graph view, backlinks, tag filter, sync
|ray-garden|rust|graphics, simulation|A small ray tracer with plants|leaf shader, scene file, sampler, denoiser, camera
|feed-raft|go|web, server|A reader of feeds without a database|feed parser, read marks, fetch timer, opml import, mobile view
|phrase-lock|javascript|security, web|Pass phrases from rolls of dice|word list, dice roll, strength meter, copy button, language menu
|unit-bridge|python|library, science|Units and conversions with errors kept|unit registry, error propagation, parser, numpy support, printing
|call-classifier|python|machine-learning, birds|Which bird is calling|spectrogram, training loop, label list, model export, audio trimmer
|gan-gallery|python|machine-learning, art|Collection of small GAN implementations|conditional model, sample grid, loss curve, dataset loader, notebook
|chat-porch|javascript|machine-learning, web|A chat page for local language models|message list, model menu, stream parser, prompt box, history
""")
