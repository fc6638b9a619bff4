"""Mutants: changes to the code that tests must notice. `make mutants` runs both halves.

operators      every small change that can be made to a module
runner         a module's tests against its mutants, in forked children
targets        the modules, their tests, and mutants that nothing can notice
seed_changes   changes to the rules of the seeds, each with its conformance test
seeds          applies those changes
"""
