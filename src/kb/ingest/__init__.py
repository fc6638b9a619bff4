"""Ingest: from folders to stored passages.

    plan > changes > file_reader > parser_pool > document_builder > indexer > store
             |                         |
           walk        parser_worker: parsers > chunk, in a separate process

Finding files:

    plan              which roots, or parts of them, a run scans
    changes           compares the files of a root with the store's records
    walk              lists the files below a root
    ignore            rules of .gitignore and .kbignore
    secret_files      whether a file holds a secret, by its name, path and first bytes
    secret_settings   whether a text is a list of settings that contains a secret
    file_names        the portable spelling, title, date and suffix of a file name
    file_entry        a file and its stat data

Reading files:

    file_reader       reads a file and detects its parser
    parse             the parsers of a run, plug-ins included
    parser_registry   finds and loads the built-in parsers
    parsers           one module or package for each format
    parser_support    code that several parsers share
    decode            decodes bytes into text
    legacy_encodings  text in encodings older than UTF-8
    escapes           escaped characters in JSON, YAML and XML
    front_matter      attributes at the top of a file
    yaml_attributes   the YAML in front matter
    attribute_bounds  limits on tags, language and metadata
    dates             converts dates and times to the form of the store
    chunk             packs blocks into chunks
    split             splits a text that is too long for a chunk

Parser processes:

    page_image        a page of a PDF as an image, in a separate process
    small_files       which files are parsed without a parser process
    parser_pool       the processes, and the parsing of one file in them
    parser_pipeline   many short files in one of the processes
    parser_process    one process, from its parent's side
    parser_worker     the program that runs in such a process
    parser_wire       the messages between the two
    parser_limits     limits on time, memory and output
    parsed_document   a parsed document with its chunks

Writing documents:

    document_builder  documents from parsed files and from notes
    indexer           brings the store up to date
    write_batch       documents that are written together
    renames           recognizes renamed files
    upload_receipts   which files of a folder were uploaded
    progress          progress events of a run
    report            builds the report of a run
"""
